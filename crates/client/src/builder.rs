//! How a client is made.

use std::time::Duration;

use crate::address::{Address, AddressError};
use crate::client::Client;

/// Makes a [`Client`].
#[derive(Clone, Debug, Default)]
#[must_use = "nothing happens before `connect`"]
pub struct Builder {
    servers: Vec<Address>,
}

/// Why a client cannot be made; the caller's fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The name cannot be sent.
    #[error("a client's name has 1 to 64 bytes, no space and no newline")]
    Name,
    /// The API token cannot be sent.
    #[error("an API token has at least one byte, no space and no newline, and fits into a hello")]
    AuthToken,
    /// The allowance for answers is too short.
    #[error("the answer allowance must be longer than 1 s")]
    AnswerAllowance,
    /// The margin of a lease must leave some of it.
    #[error("the margin must be at most 90 % of a lease")]
    Margin,
}

impl Builder {
    /// Adds the address of a server.
    pub fn server(mut self, address: &str) -> Result<Self, AddressError> {
        self.servers.push(Address::parse(address)?);
        Ok(self)
    }

    /// Adds addresses of the same server.
    pub fn servers<S: AsRef<str>>(
        self,
        addresses: impl IntoIterator<Item = S>,
    ) -> Result<Self, AddressError> {
        addresses.into_iter().try_fold(self, |builder, address| builder.server(address.as_ref()))
    }

    /// Names the client for the server's operators.
    pub fn name(self, name: impl Into<String>) -> Self {
        let _ = name.into();
        self
    }

    /// Sets the API token.
    pub fn auth_token(self, token: impl Into<String>) -> Self {
        let _ = token.into();
        self
    }

    /// Sets how long after the end of the wait an answer may still come.
    pub fn answer_allowance(self, allowance: Duration) -> Self {
        let _ = allowance;
        self
    }

    /// Sets the least margin.
    pub fn margin(self, least: Duration) -> Self {
        let _ = least;
        self
    }

    /// Sets the margin in percent of the lease.
    pub fn margin_percent(self, percent: u8) -> Self {
        let _ = percent;
        self
    }

    /// Makes the client.
    pub fn connect(self) -> Result<Client, BuildError> {
        unimplemented!()
    }
}
