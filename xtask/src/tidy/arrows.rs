//! Which crate may depend on which: the map of ARCHITECTURE.md as a table.

use super::{Finding, Repo};

/// A crate of the workspace and the workspace crates it may need to be built.
/// Every dev-dependency must be one of these too, or a crate of [`TEST_ONLY`].
const ARROWS: &[(&str, &[&str])] = &[
    ("lockstead-proto", &[]),
    ("lockstead-engine", &["lockstead-proto"]),
    ("lockstead-session", &["lockstead-proto", "lockstead-engine"]),
    ("lockstead-journal", &["lockstead-proto"]),
    ("lockstead-client-core", &["lockstead-proto"]),
    ("lockstead-server", &["lockstead-proto", "lockstead-engine", "lockstead-session", "lockstead-journal"]),
    ("lockstead-client", &["lockstead-proto", "lockstead-client-core"]),
    ("lockstead", &["lockstead-proto", "lockstead-server", "lockstead-client", "lockstead-journal"]),
    ("lockstead-testkit", &[]), // an outside checker: shares no code with what it checks
    ("lockstead-micro", &["lockstead-proto", "lockstead-engine", "lockstead-session", "lockstead-journal"]),
    ("xtask", &[]),
];

const TEST_ONLY: &[&str] = &["lockstead-testkit"];

/// Crates without clock, randomness, I/O, async and threads.
pub const PURE: &[&str] = &["proto", "engine", "session", "client-core"];

/// What a pure crate may need from outside; each works without `std`.
const PURE_LIBRARIES: &[&str] = &["memchr", "siphasher", "thiserror"];

/// Every dependency between workspace crates is in [`ARROWS`].
pub fn crates_depend_only_along_the_arrows(repo: &Repo) -> Vec<Finding> {
    let ours = |name: &&String| repo.packages.iter().any(|p| &p.name == *name);
    let mut findings = Vec::new();
    for package in &repo.packages {
        let manifest = format!("{}/Cargo.toml", package.dir);
        let Some((_, allowed)) = ARROWS.iter().find(|(name, _)| *name == package.name) else {
            let what = format!("{} has no arrows yet: add it to xtask/src/tidy/arrows.rs", package.name);
            findings.push(Finding::new(&manifest, 0, what));
            continue;
        };
        for need in package.needs.iter().filter(ours) {
            if !allowed.contains(&need.as_str()) {
                let what = format!("{} must not depend on {need}", package.name);
                findings.push(Finding::new(&manifest, 0, what));
            }
        }
        for need in package.dev_needs.iter().filter(ours) {
            if !allowed.contains(&need.as_str()) && !TEST_ONLY.contains(&need.as_str()) {
                let what = format!("{}'s tests must not depend on {need}", package.name);
                findings.push(Finding::new(&manifest, 0, what));
            }
        }
    }
    findings
}

/// `#![no_std]` keeps `std` out of a pure crate itself; this keeps it from coming in by a library.
pub fn pure_crates_use_only_pure_libraries(repo: &Repo) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in repo.packages.iter().filter(|p| is_pure(&p.dir)) {
        for need in &package.needs {
            if !need.starts_with("lockstead-") && !PURE_LIBRARIES.contains(&need.as_str()) {
                let what = format!("a pure crate must not depend on {need}");
                findings.push(Finding::new(&format!("{}/Cargo.toml", package.dir), 0, what));
            }
        }
    }
    findings
}

/// Whether the package in this directory is a pure crate.
pub fn is_pure(dir: &str) -> bool {
    dir.strip_prefix("crates/").is_some_and(|name| PURE.contains(&name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workspace() -> Repo {
        Repo::default()
            .with_package("crates/proto", &[], &["proptest"])
            .with_package("crates/engine", &["lockstead-proto", "siphasher"], &[])
            .with_package("crates/testkit", &[], &[])
    }

    #[test]
    fn the_arrows_themselves_are_allowed() {
        assert_eq!(crates_depend_only_along_the_arrows(&workspace()), []);
        assert_eq!(pure_crates_use_only_pure_libraries(&workspace()), []);
    }

    #[test]
    fn canary_an_arrow_upwards_is_found() {
        let repo = workspace().with_package("crates/session", &["lockstead-testkit"], &["lockstead-testkit"]);
        let found = crates_depend_only_along_the_arrows(&repo);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].what, "lockstead-session must not depend on lockstead-testkit");
    }

    #[test]
    fn canary_a_test_that_reaches_for_a_foreign_crate_is_found() {
        let repo = workspace().with_package("crates/client", &[], &["lockstead-engine"]);
        assert_eq!(crates_depend_only_along_the_arrows(&repo).len(), 1);
    }

    #[test]
    fn canary_a_crate_without_arrows_is_found() {
        let repo = workspace().with_package("crates/novel", &[], &[]);
        assert_eq!(crates_depend_only_along_the_arrows(&repo).len(), 1);
    }

    #[test]
    fn canary_a_clock_library_in_a_pure_crate_is_found() {
        let repo = workspace().with_package("crates/session", &["lockstead-engine", "tokio"], &["tokio"]);
        let found = pure_crates_use_only_pure_libraries(&repo);
        assert_eq!(found.len(), 1, "{found:?}");
    }
}
