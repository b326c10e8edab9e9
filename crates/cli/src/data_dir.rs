//! Where the data directory is if nobody says so, and opening one to look at it.

use std::env;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use lockstead_journal::FileStorage;

/// The directory that was asked for; or systemd's for the service, or the user's for programs that keep a state.
pub fn resolve(given: Option<&Path>) -> anyhow::Result<PathBuf> {
    let dir = given.map(Path::to_owned).or_else(|| default_dir(|name| env::var_os(name)));
    dir.context(
        "there is no default for the data directory, as none of STATE_DIRECTORY, XDG_STATE_HOME and HOME is set to \
         an absolute path: say --data-dir DIR, or serve with --durability none",
    )
}

/// Opens a directory that must be there, to look at it or to mend it.
pub fn open_existing(dir: &Path) -> anyhow::Result<FileStorage> {
    FileStorage::open_existing(dir)
        .with_context(|| format!("cannot open the data directory {}", dir.display()))
}

fn default_dir(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let absolute = |path: PathBuf| path.is_absolute().then_some(path);
    let below = |name: &str, below: &str| {
        variable(name).map(PathBuf::from).and_then(absolute).map(|dir| dir.join(below))
    };
    let systemd = variable("STATE_DIRECTORY").and_then(|dirs| {
        // A unit may name several, with colons between them.
        let first = dirs.as_bytes().split(|&byte| byte == b':').next()?;
        absolute(Path::new(std::ffi::OsStr::from_bytes(first)).to_owned())
    });
    systemd
        .or_else(|| below("XDG_STATE_HOME", "lockstead"))
        .or_else(|| below("HOME", ".local/state/lockstead"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(variables: &[(&str, &str)]) -> Option<String> {
        let find = |name: &str| variables.iter().find(|(set, _)| *set == name).map(|(_, value)| value.into());
        default_dir(find).map(|dir| dir.to_str().unwrap().to_owned())
    }

    #[test]
    fn systemd_comes_before_the_users_state_directory() {
        let (systemd, state, home) =
            (("STATE_DIRECTORY", "/var/lib/locks"), ("XDG_STATE_HOME", "/state"), ("HOME", "/users/ann"));
        let expected = |dir: &str| Some(dir.to_owned());
        assert_eq!(of(&[home, state, systemd]), expected("/var/lib/locks"));
        assert_eq!(of(&[home, state]), expected("/state/lockstead"));
        assert_eq!(of(&[home]), expected("/users/ann/.local/state/lockstead"));
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[("STATE_DIRECTORY", "/var/lib/a:/var/lib/b"), home]), expected("/var/lib/a"));
    }

    #[test]
    fn what_is_empty_or_relative_does_not_count() {
        let home = ("HOME", "/users/ann");
        let expected = Some("/users/ann/.local/state/lockstead".to_owned());
        assert_eq!(of(&[("STATE_DIRECTORY", ""), ("XDG_STATE_HOME", ""), home]), expected);
        assert_eq!(of(&[("STATE_DIRECTORY", "a:/b"), ("XDG_STATE_HOME", "state"), home]), expected);
        assert_eq!(of(&[("HOME", "")]), None);
    }
}
