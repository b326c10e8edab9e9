//! One connection and what is under way on it.

use crate::reference::Id;

/// Bytes go in at one end and come out at the other when a history says so.
#[derive(Debug, Default)]
pub struct Wire {
    pub address: usize,
    /// Which server it leads to, once it is open.
    pub server: Option<usize>,
    /// How many more bytes the client's kernel accepts.
    pub room: usize,
    /// Everything that it accepted.
    pub accepted: Vec<u8>,
    /// How much of it the server has read.
    pub read: usize,
    /// Everything that the server sent.
    pub answers: Vec<u8>,
    /// How much of it has reached the client.
    pub delivered: usize,
    /// How much of that is whole answers.
    pub parsed: usize,
    /// The id of the hello.
    pub hello: Option<u64>,
    /// Who the server is, once the client has been welcomed.
    pub id: Option<Id>,
    /// Nothing gets through.
    pub muted: bool,
    /// The server has given the session up.
    pub dead: bool,
    /// The client has closed it, or it broke.
    pub closed: bool,
}

impl Wire {
    /// Takes up to `bytes` of what the server sent off the way.
    pub fn deliver(&mut self, bytes: usize) -> Vec<u8> {
        let end = self.delivered.saturating_add(bytes).min(self.answers.len());
        let start = std::mem::replace(&mut self.delivered, end);
        self.answers[start..end].to_vec()
    }
}
