//! What holds for whole crates: shared lints, purity, where unsafe code may be, the map.

use super::arrows::is_pure;
use super::{Finding, Repo};
use proc_macro2::{TokenStream, TokenTree};

/// Crates that make system calls which no safe library offers, and the load generator with a workspace of its own.
const MAY_BE_UNSAFE: &[&str] =
    &["crates/server/", "crates/client/", "crates/cli/", "crates/testkit/", "bench/peers/"];

/// Every manifest says `[lints] workspace = true`.
pub fn lints_come_from_the_workspace(repo: &Repo) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in &repo.packages {
        let manifest = format!("{}/Cargo.toml", package.dir);
        let text = repo.file(&manifest).map_or("", |f| f.text.as_str());
        let section = text.split("\n[lints]\n").nth(1).unwrap_or("");
        let said =
            section.lines().take_while(|l| !l.starts_with('[')).any(|l| l.trim() == "workspace = true");
        if !said {
            findings.push(Finding::new(&manifest, 0, "lacks `[lints]` with `workspace = true`"));
        }
    }
    findings
}

/// A pure crate says `#![no_std]`, and names `std` for its tests alone.
pub fn pure_crates_are_no_std(repo: &Repo) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in repo.packages.iter().filter(|p| is_pure(&p.dir)) {
        let path = format!("{}/src/lib.rs", package.dir);
        let Some(file) = repo.file(&path).and_then(|f| f.rust.as_ref()) else {
            findings.push(Finding::new(&path, 0, "is missing"));
            continue;
        };
        if !file.attrs.iter().any(|a| a.path().is_ident("no_std")) {
            findings.push(Finding::new(&path, 0, "a pure crate must say `#![no_std]`"));
        }
        for item in &file.items {
            if let syn::Item::ExternCrate(named) = item
                && named.ident == "std"
                && !super::sizes::is_for_tests(&named.attrs)
            {
                findings.push(Finding::new(
                    &path,
                    named.ident.span().start().line,
                    "names std outside tests",
                ));
            }
        }
    }
    findings
}

/// Unsafe code stays in the few crates that make system calls, and in tests (one that counts memory needs it).
pub fn unsafe_only_where_system_calls_are(repo: &Repo) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, _) in repo.rust_files() {
        if MAY_BE_UNSAFE.iter().any(|dir| file.path.starts_with(dir)) || file.path.contains("/tests/") {
            continue;
        }
        for_each_token(&file.text, &mut |token, _| {
            if let TokenTree::Ident(word) = token
                && word == "unsafe"
            {
                let what = "unsafe code belongs where system calls are made";
                findings.push(Finding::new(&file.path, word.span().start().line, what));
            }
        });
    }
    findings
}

/// ARCHITECTURE.md names every member of the workspace by its directory.
pub fn the_map_names_every_crate(repo: &Repo) -> Vec<Finding> {
    let map = repo.file("ARCHITECTURE.md").map_or("", |f| f.text.as_str());
    let unnamed = repo.packages.iter().filter(|p| !map.contains(&format!("`{}`", p.dir)));
    unnamed.map(|p| Finding::new("ARCHITECTURE.md", 0, format!("does not name `{}`", p.dir))).collect()
}

/// Calls `see` with each token of a Rust text and the one after it, also inside groups and macros.
pub fn for_each_token(text: &str, see: &mut dyn FnMut(&TokenTree, Option<&TokenTree>)) {
    fn walk(stream: TokenStream, see: &mut dyn FnMut(&TokenTree, Option<&TokenTree>)) {
        let mut tokens = stream.into_iter().peekable();
        while let Some(token) = tokens.next() {
            see(&token, tokens.peek());
            if let TokenTree::Group(group) = token {
                walk(group.stream(), see);
            }
        }
    }
    if let Ok(stream) = text.parse() {
        walk(stream, see);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn canary_a_manifest_without_shared_lints_is_found() {
        let good = "[package]\n\n[lints]\nworkspace = true\n";
        let bad = "[package]\nworkspace = true\n\n[lints]\n\n[features]\n";
        let repo = Repo::planted(&[("crates/proto/Cargo.toml", good), ("crates/engine/Cargo.toml", bad)])
            .with_package("crates/proto", &[], &[])
            .with_package("crates/engine", &[], &[]);
        let found = lints_come_from_the_workspace(&repo);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].path, "crates/engine/Cargo.toml");
    }

    #[test]
    fn canary_a_pure_crate_with_std_is_found() {
        let good = "#![no_std]\nextern crate alloc;\n#[cfg(test)]\nextern crate std;\n";
        let named = "#![no_std]\nextern crate std;\n";
        let repo = Repo::planted(&[
            ("crates/proto/src/lib.rs", good),
            ("crates/engine/src/lib.rs", "//! Not pure.\n"),
            ("crates/session/src/lib.rs", named),
        ])
        .with_package("crates/proto", &[], &[])
        .with_package("crates/engine", &[], &[])
        .with_package("crates/session", &[], &[])
        .with_package("crates/server", &[], &[]);
        let found = pure_crates_are_no_std(&repo);
        let paths: Vec<&str> = found.iter().map(|f| f.path.as_str()).collect();
        assert_eq!(paths, ["crates/engine/src/lib.rs", "crates/session/src/lib.rs"]);
    }

    #[test]
    fn canary_unsafe_code_in_a_pure_crate_is_found() {
        let code = "// unsafe in a comment is nothing\nfn f() -> &'static str {\n    unsafe { g() }\n}\n";
        let paths = [
            "crates/engine/src/slab.rs",
            "crates/server/src/os.rs",
            "bench/peers/src/os.rs",
            "bench/micro.rs",
        ];
        let found = unsafe_only_where_system_calls_are(&Repo::planted(&paths.map(|path| (path, code))));
        let places: Vec<(&str, usize)> = found.iter().map(|f| (f.path.as_str(), f.line)).collect();
        assert_eq!(places, [(paths[0], 3), (paths[3], 3)], "{found:?}");
    }

    #[test]
    fn canary_a_crate_that_the_map_forgets_is_found() {
        let repo = Repo::planted(&[("ARCHITECTURE.md", "`crates/proto` has the frames.")])
            .with_package("crates/proto", &[], &[])
            .with_package("crates/engine", &[], &[]);
        assert_eq!(the_map_names_every_crate(&repo).len(), 1);
    }
}
