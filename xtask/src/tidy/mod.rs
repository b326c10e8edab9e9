//! Style rules that a compiler cannot know, each one function from the repository to its findings.
//!
//! The rules run as a normal test of this package, so the workspace's test command covers them. Each
//! has a canary beside it: a planted fault that it must find.

mod arrows;
mod constants;
mod crates;
mod frames;
mod repo;
mod reports;
mod sizes;
mod texts;

pub use repo::Repo;
use std::fmt;

/// One place that breaks one rule.
#[derive(Debug, PartialEq, Eq)]
pub struct Finding {
    /// Path from the workspace's root.
    pub path: String,
    /// Counted from 1; 0 when the whole file is meant.
    pub line: usize,
    /// What is wrong and what would be right.
    pub what: String,
}

impl Finding {
    fn new(path: &str, line: usize, what: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, what: what.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.path, self.what),
            line => write!(f, "{}:{line}: {}", self.path, self.what),
        }
    }
}

/// A rule reads the whole repository and returns every place that breaks it.
type Rule = fn(&Repo) -> Vec<Finding>;

const RULES: &[Rule] = &[
    repo::every_rust_file_parses,
    arrows::crates_depend_only_along_the_arrows,
    arrows::pure_crates_use_only_pure_libraries,
    crates::lints_come_from_the_workspace,
    crates::pure_crates_are_no_std,
    crates::unsafe_only_where_system_calls_are,
    crates::the_map_names_every_crate,
    sizes::files_are_short,
    sizes::functions_are_short,
    texts::nothing_is_left_for_later,
    texts::no_paths_of_one_machine,
    texts::links_lead_somewhere,
    texts::pages_named_in_code_exist,
    reports::each_report_has_a_test,
    frames::examples_are_in_the_vectors,
    constants::limits_are_as_the_page_says,
];

/// Runs every rule.
pub fn check(repo: &Repo) -> Vec<Finding> {
    RULES.iter().flat_map(|rule| rule(repo)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_repository_is_tidy() {
        let repo = Repo::read(crate::root()).expect("the repository can be read");
        assert!(repo.files.len() > 20, "the walk must find the repository's files");
        let findings: Vec<String> = check(&repo).iter().map(Finding::to_string).collect();
        assert!(findings.is_empty(), "\n{}\n", findings.join("\n"));
    }
}
