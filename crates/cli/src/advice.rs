//! What an operator can do about a data directory that a server does not start from.

use std::io;
use std::path::Path;

use lockstead_journal::OpenError;
use lockstead_server::ServeError;

/// The error of a server with this data directory, with what can be done about it.
pub fn with_advice(error: ServeError, dir: &Path, require_data: bool) -> anyhow::Error {
    let error = anyhow::Error::new(error);
    let open = error.chain().find_map(|cause| cause.downcast_ref::<OpenError>());
    match open.and_then(|open| advice(open, dir, require_data)) {
        Some(advice) => anyhow::anyhow!("{}; {advice}", crate::output::with_causes(&error)),
        None => error,
    }
}

fn advice(error: &OpenError, dir: &Path, require_data: bool) -> Option<String> {
    let dir = dir.display();
    let no_data = || {
        Some(
            "is this the right directory, and is its volume mounted? Leave out --require-data to begin with an \
             empty one"
                .to_owned(),
        )
    };
    match error {
        OpenError::InUse => Some("stop that server, or give this one another --data-dir".to_owned()),
        OpenError::NoData => no_data(),
        OpenError::Volatile => {
            Some("choose one on a disk, or --durability process, which does not need one".to_owned())
        }
        OpenError::NewerFormat { .. } => Some("use the version that wrote it, or a later one".to_owned()),
        OpenError::Corrupt { .. } => Some(format!(
            "nothing was changed; `lockstead repair --data-dir {dir}` says what is damaged and how to go on"
        )),
        OpenError::Storage { source, .. } => match source.kind() {
            io::ErrorKind::NotFound if require_data => no_data(),
            io::ErrorKind::PermissionDenied => {
                Some(format!("{dir} and all files in it must belong to the user that the server runs as"))
            }
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                Some("a new data directory needs some room".to_owned())
            }
            _ => None,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_refusal_says_what_to_do() {
        let storage = |kind: io::ErrorKind| OpenError::Storage { what: "x".into(), source: kind.into() };
        let corrupt = OpenError::Corrupt { file: "f".into(), offset: 1, what: "it is bad" };
        for (error, require_data, expected) in [
            (OpenError::InUse, false, "stop that server"),
            (OpenError::NoData, true, "is its volume mounted?"),
            (OpenError::Volatile, false, "--durability process"),
            (OpenError::NewerFormat { file: "f".into(), version: 2 }, false, "the version that wrote it"),
            (corrupt, false, "`lockstead repair --data-dir /var/lib/locks`"),
            (storage(io::ErrorKind::NotFound), true, "is its volume mounted?"),
            (
                storage(io::ErrorKind::PermissionDenied),
                false,
                "/var/lib/locks and all files in it must belong",
            ),
            (storage(io::ErrorKind::StorageFull), false, "room"),
        ] {
            let advice = advice(&error, Path::new("/var/lib/locks"), require_data).unwrap();
            assert!(advice.contains(expected), "{error}; {advice}");
        }
        let other = advice(&storage(io::ErrorKind::NotFound), Path::new("/var/lib/locks"), false);
        assert_eq!(other, None);
    }
}
