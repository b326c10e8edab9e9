//! How a client is made.

use std::io;
use std::marker::PhantomData;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use lockstead_client_core::{Config, Core, Margin};
use lockstead_proto::{DEFAULT_PORT, HelloText, MAX_TEXT};
use tokio::runtime;

use crate::address::{Address, AddressError};
use crate::blocking;
use crate::client::Client;
use crate::driver::Driver;
use crate::process;
use crate::shared::{Handle, Shared};

/// Makes a [`Client`]: where the server is, and what the client says about itself. Every setting has a default.
///
/// Made by `Client::builder()` of the [async](crate::Client::builder) or the
/// [blocking](crate::blocking::Client::builder) client, which differ in [`connect`](Self::connect) alone.
///
/// One thing cannot be set: a client has at most 65,536 acquires open at once, and as many other requests. More end at
/// once as [`UnsentCause::QueueFull`](crate::UnsentCause::QueueFull).
#[derive(Clone, Debug)]
#[must_use = "nothing happens before `connect`"]
pub struct Builder<C = Client> {
    client: PhantomData<fn() -> C>,
    servers: Vec<Address>,
    name: Option<String>,
    auth_token: Option<String>,
    answer_allowance: Duration,
    margin: Margin,
}

/// Why a client cannot be made; the caller's fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The name cannot be sent.
    #[error("a client's name has 1 to 64 bytes, no space and no newline")]
    Name,
    /// The API token cannot be sent.
    #[error("an API token has at least one byte, no space, no newline, and fits into a hello of 1024 bytes")]
    AuthToken,
    /// The allowance for answers is too short: the rounding of waits alone can take a second.
    #[error("the answer allowance must be longer than 1 s")]
    AnswerAllowance,
    /// The margin of a lease can only be raised, and must leave some of the lease.
    #[error("the margin must be between 5 % and 90 % of a lease, and at least 20 ms")]
    Margin,
    /// The operating system gave no random numbers.
    #[error("the operating system gave no random numbers")]
    Random,
    /// The operating system gave no thread for a blocking client.
    #[error("the operating system gave no thread for the client: {0}")]
    Thread(io::ErrorKind),
}

impl<C> Builder<C> {
    pub(crate) fn new() -> Self {
        Self {
            client: PhantomData,
            servers: Vec::new(),
            name: None,
            auth_token: None,
            answer_allowance: Config::ANSWER_ALLOWANCE,
            margin: Margin::DEFAULT,
        }
    }

    /// Adds an address of the server: `host:port`, `[ipv6]:port` or `unix:/path`. With several, the client goes to the
    /// next one when one does not answer; all of them must lead to one and the same server. Default: `127.0.0.1:5625`.
    pub fn server(mut self, address: &str) -> Result<Self, AddressError> {
        self.servers.push(Address::parse(address)?);
        Ok(self)
    }

    /// Adds several addresses; see [`server`](Self::server).
    pub fn servers<S: AsRef<str>>(
        self,
        addresses: impl IntoIterator<Item = S>,
    ) -> Result<Self, AddressError> {
        addresses.into_iter().try_fold(self, |builder, address| builder.server(address.as_ref()))
    }

    /// Names the client for the server's operators: 1 to 64 bytes without spaces. Default: no name.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// The API token that a server may demand.
    pub fn auth_token(mut self, token: impl Into<String>) -> Self {
        self.auth_token = Some(token.into());
        self
    }

    /// How long after the end of its wait the answer of an acquire may still come; more than 1 s. Default: 2 s. A
    /// longer one gives fewer Indeterminate outcomes on slow networks, and later ones.
    pub fn answer_allowance(mut self, allowance: Duration) -> Self {
        self.answer_allowance = allowance;
        self
    }

    /// The least time before the end of a lease at which its ticket counts as lost: time for late timers, and for the
    /// program to stop what the lock protects. Can only be raised. Default: 20 ms. A lease must be longer than the
    /// margin and what is taken off for the clocks (0.1 % of it, at least 1 ms); acquires and extends with a shorter one
    /// are refused at once, as [`UsageError::LeaseWithinMargin`](crate::UsageError::LeaseWithinMargin).
    pub fn margin(mut self, least: Duration) -> Self {
        self.margin.least = least;
        self
    }

    /// The same in percent of the lease; the longer of the two counts. Can only be raised. Default: 5.
    pub fn margin_percent(mut self, percent: u8) -> Self {
        self.margin.percent = percent;
        self
    }

    /// What the client and its driver will share.
    fn make(mut self) -> Result<Arc<Shared>, BuildError> {
        if self.answer_allowance <= Duration::from_secs(1) {
            return Err(BuildError::AnswerAllowance);
        }
        let Margin { percent, least } = self.margin;
        if !(Margin::DEFAULT.percent..=90).contains(&percent) || least < Margin::DEFAULT.least {
            return Err(BuildError::Margin);
        }
        if self.servers.is_empty() {
            self.servers.push(Address::Tcp { host: "127.0.0.1".to_owned(), port: DEFAULT_PORT });
        }
        let core = Core::new(Config {
            addresses: self.servers.iter().map(ToString::to_string).collect(),
            hello_text: self.hello_text()?,
            answer_allowance: self.answer_allowance,
            margin: self.margin,
            max_open: Config::MAX_OPEN,
            seeds: [random()?, random()?],
        });
        let shared = Arc::new(Shared::new(core, self.servers));
        process::watch(&shared);
        Ok(shared)
    }

    fn hello_text(&self) -> Result<String, BuildError> {
        let unfit = |value: &str| value.is_empty() || value.contains([' ', '\n']);
        let mut pairs = Vec::new();
        if let Some(name) = &self.name {
            if unfit(name) || name.len() > HelloText::MAX_NAME {
                return Err(BuildError::Name);
            }
            pairs.push(format!("name={name}"));
        }
        if let Some(token) = &self.auth_token {
            if unfit(token) {
                return Err(BuildError::AuthToken);
            }
            pairs.push(format!("auth={token}"));
        }
        let text = pairs.join(" ");
        if text.len() > MAX_TEXT { Err(BuildError::AuthToken) } else { Ok(text) }
    }
}

impl Builder<Client> {
    /// Makes the client and its background task. The network is not waited for: a connection is
    /// opened when there is something to send, and a call that finds no server within its own time says so. To learn
    /// at once whether the server is there, [`ping`](Client::ping) it.
    ///
    /// The task runs in the current runtime. When that ends, the client ends like after
    /// [`shutdown`](crate::Client::shutdown): every ticket is lost and released.
    ///
    /// # Panics
    ///
    /// Outside of a Tokio runtime with I/O and time enabled.
    pub fn connect(self) -> Result<Client, BuildError> {
        let shared = self.make()?;
        tokio::spawn(Driver::new(shared.clone()));
        Ok(Client::new(Arc::new(Handle(shared))))
    }
}

impl Builder<blocking::Client> {
    /// Makes the client and its background thread. The network is not waited for: a connection is
    /// opened when there is something to send, and a call that finds no server within its own time says so. To learn
    /// at once whether the server is there, [`ping`](blocking::Client::ping) it.
    pub fn connect(self) -> Result<blocking::Client, BuildError> {
        let shared = self.make()?;
        let failed = |error: io::Error| BuildError::Thread(error.kind());
        let runtime = runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let driver = {
            let _inside = runtime.enter();
            Driver::new(shared.clone())
        };
        let handle = Arc::new(Handle(shared));
        thread::Builder::new()
            .name("lockstead".to_owned())
            // As a task it is woken more cheaply by its own sockets than as what the runtime blocks on.
            .spawn(move || runtime.block_on(runtime.spawn(driver)))
            .map_err(failed)?;
        Ok(blocking::Client::new(Client::new(handle)))
    }
}

/// The only place where the client draws random numbers.
fn random() -> Result<u64, BuildError> {
    getrandom::u64().map_err(|_| BuildError::Random)
}
