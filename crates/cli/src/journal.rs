//! `lockstead journal`.

use std::io::{self, BufWriter, Write as _};

use anyhow::Context as _;
use lockstead_journal::{DumpError, Storage as _};

use crate::args::DumpArgs;
use crate::exit::Status;
use crate::{data_dir, output};

/// Prints every record. Takes no lock and changes nothing.
pub fn dump(args: &DumpArgs) -> anyhow::Result<Status> {
    let dir = data_dir::resolve(args.data.data_dir.as_deref())?;
    let cannot = || format!("cannot dump {}", dir.display());
    let storage = data_dir::open_existing(&dir)?;
    if storage.is_taken().with_context(cannot)? {
        output::complain(&format!(
            "a server uses {}; what it is just writing may look unfinished",
            dir.display()
        ));
    }
    let mut stdout = BufWriter::new(io::stdout().lock());
    lockstead_journal::dump(&storage, &mut stdout)
        .and_then(|()| stdout.flush().map_err(DumpError::Write))
        .with_context(cannot)?;
    Ok(Status::DONE)
}
