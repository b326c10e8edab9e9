//! docs/field-reports.md and the tests named after its rows keep to each other.

use super::crates::for_each_token;
use super::{Finding, Repo};
use proc_macro2::TokenTree;
use std::collections::BTreeMap;

const PAGE: &str = "docs/field-reports.md";

/// Each row `| P21 | …` has a test function `p21_…` somewhere, and each such function has its row.
pub fn each_report_has_a_test(repo: &Repo) -> Vec<Finding> {
    let rows: BTreeMap<&str, usize> = repo
        .file(PAGE)
        .into_iter()
        .flat_map(|page| page.lines())
        .filter_map(|(number, line)| Some((line.strip_prefix("| P")?.get(..2)?, number)))
        .collect();
    let mut tests = BTreeMap::new();
    for (file, _) in repo.rust_files() {
        for_each_token(&file.text, &mut |token, next| {
            if let (TokenTree::Ident(keyword), Some(TokenTree::Ident(name))) = (token, next)
                && keyword == "fn"
                && let Some(report) = report_of(&name.to_string())
            {
                tests.entry(report).or_insert((file.path.as_str(), name.span().start().line));
            }
        });
    }
    let untested = rows.iter().filter(|(report, _)| !tests.contains_key(**report));
    let unlisted = tests.iter().filter(|(report, _)| !rows.contains_key(report.as_str()));
    untested
        .map(|(report, line)| Finding::new(PAGE, *line, format!("P{report} has no test p{report}_…")))
        .chain(unlisted.map(|(report, (path, line))| {
            Finding::new(path, *line, format!("P{report} has a test but no row in {PAGE}"))
        }))
        .collect()
}

/// `21` for `p21_split_frames`.
fn report_of(function: &str) -> Option<String> {
    let (number, _) = function.strip_prefix('p')?.split_once('_')?;
    (number.len() == 2 && number.bytes().all(|b| b.is_ascii_digit())).then(|| number.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn canary_a_row_without_a_test_and_a_test_without_a_row_are_found() {
        let page = "| no. | what |\n| --- | --- |\n| P21 | split frames |\n| P22 | injection |\n";
        let code = "fn p21_split_frames() {}\nproptest! {\n    fn p23_bad_utf8() {}\n}\nfn p2_no() {}\n";
        let found = each_report_has_a_test(&Repo::planted(&[(PAGE, page), ("crates/proto/src/a.rs", code)]));
        let places: Vec<(&str, usize)> = found.iter().map(|f| (f.path.as_str(), f.line)).collect();
        assert_eq!(places, [(PAGE, 4), ("crates/proto/src/a.rs", 3)], "{found:?}");
    }
}
