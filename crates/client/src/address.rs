//! Where a server listens.

use std::fmt;
use std::path::PathBuf;

/// Where a server listens: `host:port` or `unix:/path`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A TCP address. The host may be a name; it is looked up anew for each connection.
    Tcp {
        /// A name, an IPv4 address, or an IPv6 address without its brackets.
        host: String,
        /// The port.
        port: u16,
    },
    /// A Unix-domain socket.
    Unix(PathBuf),
}

/// Why a text is no address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AddressError {
    /// It is not one of the known forms.
    #[error("`{0}` is no address; write host:port or unix:/path")]
    Form(String),
    /// TLS is not built yet.
    #[error("`{0}`: tls:// addresses are not built yet")]
    Tls(String),
}

impl Address {
    /// Reads an address.
    pub fn parse(text: &str) -> Result<Self, AddressError> {
        let form = || AddressError::Form(text.to_owned());
        if text.starts_with("tls://") {
            return Err(AddressError::Tls(text.to_owned()));
        }
        if let Some(path) = text.strip_prefix("unix:") {
            return if path.is_empty() { Err(form()) } else { Ok(Self::Unix(path.into())) };
        }
        let (host, port) = text.rsplit_once(':').ok_or_else(form)?;
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let host = match bare {
            Some(v6) if v6.contains(':') => v6,
            None if !host.is_empty() && !host.contains([':', '/', '[', ']']) => host,
            _ => return Err(form()),
        };
        let port = port.parse().map_err(|_| form())?;
        Ok(Self::Tcp { host: host.to_owned(), port })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp { host, port } => write!(f, "{host}:{port}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_forms_of_an_address_and_back() {
        for text in ["localhost:5625", "10.0.0.1:1", "[::1]:5625", "unix:/run/l.sock", "unix:rel"] {
            assert_eq!(Address::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(Address::parse("[::1]:7"), Ok(Address::Tcp { host: "::1".into(), port: 7 }));
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for text in
            ["", "host", ":1", "host:", "host:65536", "host:x", "::1:5625", "[x]:1", "unix:", "http://h:1"]
        {
            assert_eq!(Address::parse(text), Err(AddressError::Form(text.into())), "{text}");
        }
        assert_eq!(Address::parse("tls://h:1"), Err(AddressError::Tls("tls://h:1".into())));
    }
}
