//! Hello and welcome.

use alloc::format;
use alloc::string::String;

use lockstead_proto::{ErrorCode, Hello, HelloText, MAX_KEY, VERSION, Welcome};

use crate::fault::Fault;
use crate::output::Output;

/// What a session tells its peer about the server.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The server id: 32 hexadecimal digits.
    pub server_id: String,
    /// The version of the program.
    pub version: &'static str,
    /// The longest lease that is granted, in seconds.
    pub max_lease_s: u8,
}

/// Answers a hello, or says what is wrong with it.
pub(crate) fn greet(hello: Hello<'_>, number: u64, facts: &Facts, output: &mut Output) -> Option<Fault> {
    if HelloText::parse(hello.text).is_none() {
        let text = "the name in a hello has 1 to 64 bytes";
        return Some(Fault { code: ErrorCode::Malformed, id: hello.id, text });
    }
    let Facts { server_id, version, max_lease_s } = facts;
    let text = format!(
        "server=lockstead/{version} id={server_id} session={number} max_key={MAX_KEY} max_lease={max_lease_s}"
    );
    Welcome { version: VERSION, id: hello.id, text: &text }.encode(output.buffer());
    None
}
