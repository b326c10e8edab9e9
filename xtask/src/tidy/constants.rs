//! The limits that docs/protocol.md names are those of the code.

use super::{Finding, Repo};

const PAGE: &str = "docs/protocol.md";

/// Each `NAME = value` in a table of the page stands as `const NAME: … = value;` in the code.
pub fn limits_are_as_the_page_says(repo: &Repo) -> Vec<Finding> {
    let Some(page) = repo.file(PAGE) else { return Vec::new() };
    let mut findings = Vec::new();
    for (number, line) in page.lines().filter(|(_, line)| line.starts_with('|')) {
        for code in line.split('`').skip(1).step_by(2) {
            let Some((name, value)) = code.split_once(" = ") else { continue };
            if !is_defined(repo, name, value) {
                let what = format!("the code has no `const {name}: … = {value};`");
                findings.push(Finding::new(PAGE, number, what));
            }
        }
    }
    findings
}

fn is_defined(repo: &Repo, name: &str, value: &str) -> bool {
    let (begin, end) = (format!("const {name}: "), format!(" = {value};"));
    let mut lines = repo.rust_files().flat_map(|(file, _)| file.lines());
    lines.any(|(_, line)| line.contains(&begin) && line.trim_end().ends_with(&end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn canary_a_limit_that_the_code_has_otherwise_or_not_at_all_is_found() {
        let page = "| a | `A` 1 | `MOST = 16 * 1024` |\n| b | `LEAST = 2` |\n| c | `GONE = 3` |\n`NOT = 4`\n";
        let code = "/// Most.\npub(crate) const MOST: usize = 16 * 1024;\nconst LEAST: u8 = 1;\n";
        let found = limits_are_as_the_page_says(&Repo::planted(&[(PAGE, page), ("a.rs", code)]));
        let lines: Vec<usize> = found.iter().map(|f| f.line).collect();
        assert_eq!(lines, [2, 3], "{found:?}");
    }
}
