//! Which server answers: all addresses of a client must lead to one (docs/client-contract.md, rule 16).

use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec::Vec;

/// Who a server is.
#[derive(Clone, Debug, PartialEq, Eq)]
enum ServerId {
    /// As its welcome says.
    Named(String),
    /// Its welcome names no id: it is whoever listens at that address.
    AtAddress(usize),
}

/// What a welcome means for the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    /// The client's server.
    Known,
    /// Another server has taken the place of the client's server, at the same address.
    TakenOver,
    /// Some other server: nothing may be sent to it.
    Other,
}

/// The client's server and what each address has shown.
#[derive(Debug)]
pub(crate) struct Servers {
    current: Option<ServerId>,
    /// The id that was accepted last from each address.
    shown: Vec<Option<ServerId>>,
}

impl Servers {
    pub(crate) fn new(addresses: usize) -> Self {
        Self { current: None, shown: alloc::vec![None; addresses] }
    }

    /// Judges a welcome from `address`.
    pub(crate) fn welcome(&mut self, address: usize, named: Option<&str>) -> Shown {
        let id = Some(match named {
            Some(name) => ServerId::Named(name.to_owned()),
            None => ServerId::AtAddress(address),
        });
        let shown = if self.current.is_none() || self.current == id {
            Shown::Known
        } else if self.shown[address] == self.current {
            Shown::TakenOver
        } else {
            return Shown::Other;
        };
        self.shown[address].clone_from(&id);
        self.current = id;
        shown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rule16_the_first_id_seen_is_the_clients() {
        let mut servers = Servers::new(2);
        assert_eq!(servers.welcome(0, Some("a")), Shown::Known);
        assert_eq!(servers.welcome(1, Some("a")), Shown::Known);
        assert_eq!(servers.welcome(0, Some("a")), Shown::Known);
    }

    #[test]
    fn rule16_another_id_is_taken_over_only_from_the_address_that_showed_the_old_one() {
        let mut servers = Servers::new(2);
        assert_eq!(servers.welcome(0, Some("a")), Shown::Known);
        assert_eq!(servers.welcome(1, Some("b")), Shown::Other);
        assert_eq!(servers.welcome(1, Some("b")), Shown::Other, "what was refused was not shown");
        assert_eq!(servers.welcome(0, Some("b")), Shown::TakenOver);
        assert_eq!(servers.welcome(1, Some("b")), Shown::Known);
        assert_eq!(servers.welcome(0, Some("b")), Shown::Known);
        assert_eq!(servers.welcome(1, Some("a")), Shown::TakenOver);
        assert_eq!(
            servers.welcome(0, Some("c")),
            Shown::Other,
            "it showed b, which is not the client's any more"
        );
    }

    #[test]
    fn rule16_a_server_without_an_id_is_its_address() {
        let mut servers = Servers::new(2);
        assert_eq!(servers.welcome(1, None), Shown::Known);
        assert_eq!(servers.welcome(1, None), Shown::Known);
        assert_eq!(servers.welcome(0, None), Shown::Other);
        assert_eq!(servers.welcome(1, Some("a")), Shown::TakenOver);
    }
}
