//! The repository as the rules see it: its text files and its packages, read once.

use super::Finding;
use anyhow::Context as _;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Everything a rule may look at. A plain value, so that a canary can plant one.
#[derive(Default)]
pub struct Repo {
    /// Sorted by path.
    pub files: Vec<TextFile>,
    /// The workspace's members.
    pub packages: Vec<Package>,
}

/// One UTF-8 file.
pub struct TextFile {
    /// Path from the workspace's root, with `/`.
    pub path: String,
    /// Its whole contents.
    pub text: String,
    /// The syntax tree of a `.rs` file that parses.
    pub rust: Option<syn::File>,
}

/// A workspace member with its dependencies, by package name.
pub struct Package {
    /// Package name.
    pub name: String,
    /// Path of its directory from the workspace's root.
    pub dir: String,
    /// Normal and build dependencies.
    pub needs: Vec<String>,
    /// Dev-dependencies.
    pub dev_needs: Vec<String>,
}

impl Repo {
    /// Reads the work tree below `root`: every UTF-8 file outside of .git and of build directories.
    pub fn read(root: &Path) -> anyhow::Result<Self> {
        let mut files = Vec::new();
        walk(root, "", &mut files)?;
        files.sort_by(|a: &TextFile, b| a.path.cmp(&b.path));
        Ok(Self { files, packages: packages(root)? })
    }

    /// The file at `path`, if there is one.
    pub fn file(&self, path: &str) -> Option<&TextFile> {
        self.files.iter().find(|f| f.path == path)
    }

    /// Every Rust file that parses, with its syntax tree.
    pub fn rust_files(&self) -> impl Iterator<Item = (&TextFile, &syn::File)> {
        self.files.iter().filter_map(|f| Some((f, f.rust.as_ref()?)))
    }

    #[cfg(test)]
    pub fn planted(files: &[(&str, &str)]) -> Self {
        let files = files.iter().map(|(path, text)| TextFile::new(path, (*text).to_owned())).collect();
        Self { files, packages: Vec::new() }
    }

    #[cfg(test)]
    pub fn with_package(mut self, dir: &str, needs: &[&str], dev_needs: &[&str]) -> Self {
        let owned = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect();
        self.packages.push(Package {
            name: format!("lockstead-{}", dir.trim_start_matches("crates/")),
            dir: dir.to_owned(),
            needs: owned(needs),
            dev_needs: owned(dev_needs),
        });
        self
    }
}

impl TextFile {
    fn new(path: &str, text: String) -> Self {
        let rust = if path.ends_with(".rs") { syn::parse_file(&text).ok() } else { None };
        Self { path: path.to_owned(), text, rust }
    }

    /// The lines, counted from 1.
    pub fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(i, line)| (i + 1, line))
    }
}

/// The other rules see only what parses, so a file that does not is a finding of its own.
pub fn every_rust_file_parses(repo: &Repo) -> Vec<Finding> {
    let unparsed = repo.files.iter().filter(|f| f.path.ends_with(".rs") && f.rust.is_none());
    unparsed.map(|f| Finding::new(&f.path, 0, "is not a Rust file that can be parsed")).collect()
}

fn walk(root: &Path, below: &str, files: &mut Vec<TextFile>) -> anyhow::Result<()> {
    let dir = root.join(below);
    for entry in fs::read_dir(&dir).with_context(|| format!("cannot list {}", dir.display()))? {
        let entry = entry?;
        let name = entry.file_name().into_string().unwrap_or_default();
        let path = if below.is_empty() { name.clone() } else { format!("{below}/{name}") };
        let kind = entry.file_type()?;
        if name == ".git" {
            continue; // a directory, or in a second work tree a file that names the first
        }
        if kind.is_dir() {
            // Cargo marks its build directories with this file, whatever their name.
            let built = entry.path().join("CACHEDIR.TAG").exists() || name.starts_with("mutants.out");
            if name != "target" && !built {
                walk(root, &path, files)?;
            }
        } else if kind.is_file()
            && let Ok(text) = fs::read_to_string(entry.path())
        {
            files.push(TextFile::new(&path, text));
        }
    }
    Ok(())
}

fn packages(root: &Path) -> anyhow::Result<Vec<Package>> {
    let out = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--offline", "--format-version=1"])
        .current_dir(root)
        .output()
        .context("cannot start cargo metadata")?;
    anyhow::ensure!(out.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&out.stderr));
    let all: serde_json::Value = serde_json::from_slice(&out.stdout)?;
    let list = all["packages"].as_array().context("cargo metadata names no packages")?;
    list.iter().map(|package| read_package(root, package).context("unexpected cargo metadata")).collect()
}

fn read_package(root: &Path, package: &serde_json::Value) -> Option<Package> {
    let manifest = Path::new(package["manifest_path"].as_str()?);
    let dir = manifest.parent()?.strip_prefix(root).ok()?.to_str()?.to_owned();
    let (mut needs, mut dev_needs) = (Vec::new(), Vec::new());
    for dependency in package["dependencies"].as_array()? {
        let name = dependency["name"].as_str()?.to_owned();
        if dependency["kind"] == "dev" { dev_needs.push(name) } else { needs.push(name) }
    }
    Some(Package { name: package["name"].as_str()?.to_owned(), dir, needs, dev_needs })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn canary_a_broken_rust_file_is_found() {
        let repo = Repo::planted(&[("a.rs", "fn f() {}"), ("b.rs", "fn f( {}"), ("c.md", "fn f( {}")]);
        let found = every_rust_file_parses(&repo);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].path, "b.rs");
    }
}
