//! What no text of the project may hold, and where its links must lead.

use super::crates::for_each_token;
use super::{Finding, Repo};
use proc_macro2::TokenTree;

/// Macros that stand for code which is not there, or for a look while debugging.
const LEFT_OVER_MACROS: &[&str] = &["todo", "unimplemented", "dbg"];

/// Marks of unfinished work; spelled in halves, for this file is read too.
const MARKS: &[&str] = &[concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];

/// Directories that exist on one machine only, without the leading slash for the same reason.
const MACHINE_DIRS: &[&str] = &["home/", "root/", "Users/", "work/", "tmp/plan", "tmp/target-"];

/// Where the pages are that code names.
const DOCS: &str = concat!("do", "cs/");

/// No mark of unfinished work and no macro that stands for it.
pub fn nothing_is_left_for_later(repo: &Repo) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in repo.files.iter().filter(|f| is_prose_or_code(&f.path)) {
        for (number, line) in file.lines() {
            if let Some(mark) = MARKS.iter().find(|mark| has_word(line, mark)) {
                findings.push(Finding::new(
                    &file.path,
                    number,
                    format!("{mark}: file an issue or do it now"),
                ));
            }
        }
        if file.rust.is_none() {
            continue;
        }
        for_each_token(&file.text, &mut |token, next| {
            let TokenTree::Ident(word) = token else { return };
            let called = matches!(next, Some(TokenTree::Punct(mark)) if mark.as_char() == '!');
            if called && LEFT_OVER_MACROS.iter().any(|name| word == name) {
                findings.push(Finding::new(
                    &file.path,
                    word.span().start().line,
                    format!("{word}! is left over"),
                ));
            }
        });
    }
    findings
}

/// No path that exists on the machine of one developer only.
pub fn no_paths_of_one_machine(repo: &Repo) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in &repo.files {
        for (number, line) in file.lines() {
            let begins: Vec<usize> = line.match_indices('/').map(|(at, _)| at).collect();
            for at in begins {
                let absolute = !line[..at].ends_with(|c: char| c.is_alphanumeric() || "/._-~*$}".contains(c));
                let named = MACHINE_DIRS.iter().any(|dir| line[at + 1..].starts_with(dir));
                if absolute && named {
                    findings.push(Finding::new(&file.path, number, "names a path of one machine"));
                }
            }
        }
    }
    findings
}

/// Every relative link of a Markdown page leads to a file or directory of the repository.
pub fn links_lead_somewhere(repo: &Repo) -> Vec<Finding> {
    let mut findings = Vec::new();
    for page in repo.files.iter().filter(|f| f.path.ends_with(".md")) {
        let dir = page.path.rsplit_once('/').map_or("", |(dir, _)| dir);
        for (number, line) in page.lines() {
            for after in line.split("](").skip(1) {
                let target = after.split([')', '#']).next().unwrap_or("");
                if target.is_empty() || target.contains("://") {
                    continue;
                }
                let path = join(dir, target);
                let below = format!("{path}/");
                if !repo.files.iter().any(|f| f.path == path || f.path.starts_with(&below)) {
                    findings.push(Finding::new(
                        &page.path,
                        number,
                        format!("the link to {target} leads nowhere"),
                    ));
                }
            }
        }
    }
    findings
}

/// Every page of docs/ that code names exists, and so does the part of it that stands behind it in asterisks.
pub fn pages_named_in_code_exist(repo: &Repo) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, _) in repo.rust_files() {
        for (number, line) in file.lines() {
            for after in line.split(DOCS).skip(1) {
                let Some((name, behind)) = after.split_once(".md") else {
                    continue;
                };
                let path = format!("{DOCS}{name}.md");
                if !name.chars().all(|c| c.is_ascii_lowercase() || c == '-') {
                    continue;
                }
                let Some(page) = repo.file(&path) else {
                    findings.push(Finding::new(&file.path, number, format!("there is no {path}")));
                    continue;
                };
                let part = behind.strip_prefix(", *").and_then(|rest| rest.split_once('*'));
                if let Some((part, _)) = part
                    && !page.lines().any(|(_, line)| is_titled(line, part))
                {
                    findings.push(Finding::new(
                        &file.path,
                        number,
                        format!("{path} has no part named {part}"),
                    ));
                }
            }
        }
    }
    findings
}

/// Whether a line is the heading `part` or a paragraph that begins with it in bold.
fn is_titled(line: &str, part: &str) -> bool {
    let heading = line.starts_with('#') && line.trim_start_matches(['#', ' ']) == part;
    heading || line.starts_with(&format!("**{part}.**"))
}

fn join(dir: &str, target: &str) -> String {
    let mut parts: Vec<&str> = dir.split('/').filter(|p| !p.is_empty()).collect();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            name => parts.push(name),
        }
    }
    parts.join("/")
}

fn is_prose_or_code(path: &str) -> bool {
    [".rs", ".md", ".toml", ".sh", ".py", ".ts", "ci/run"].iter().any(|end| path.ends_with(end))
}

fn has_word(line: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word)
        .any(|(at, _)| !line[..at].ends_with(is_part) && !line[at + word.len()..].starts_with(is_part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn canary_marks_of_unfinished_work_are_found() {
        let text = format!("// {}: later\nlet a = \"{}S\";\n", MARKS[0], MARKS[0]);
        let found = nothing_is_left_for_later(&Repo::planted(&[("a.toml", &text), ("b.json", &text)]));
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!((found[0].path.as_str(), found[0].line), ("a.toml", 1));
    }

    #[test]
    fn canary_left_over_macros_are_found_inside_macros_too() {
        let code = "/// todo!() in a comment\nfn todo() {\n    let _ = vec![dbg!(1)];\n    todo!()\n}\n";
        let found = nothing_is_left_for_later(&Repo::planted(&[("a.rs", code)]));
        let lines: Vec<usize> = found.iter().map(|f| f.line).collect();
        assert_eq!(lines, [3, 4], "{found:?}");
    }

    #[test]
    fn canary_a_path_of_one_machine_is_found() {
        let text = format!("see \"/{}x\"\nhost/{}x and ./{}x\n", "work/", "work/", "home/");
        let found = no_paths_of_one_machine(&Repo::planted(&[("a.md", &text)]));
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].line, 1);
    }

    #[test]
    fn canary_a_link_to_nowhere_is_found() {
        let page = "[a](../README.md#top), [b](gone.md) and [c](#here)\n[d](https://example.org/x) [e](..)\n";
        let repo = Repo::planted(&[("README.md", ""), ("book/b.md", page)]);
        let found = links_lead_somewhere(&repo);
        assert_eq!(found.len(), 2, "{found:?}");
        assert_eq!(found[0].what, "the link to gone.md leads nowhere");
    }

    #[test]
    fn canary_a_page_or_a_part_of_one_that_is_not_there_is_found() {
        let code =
            format!("//! {DOCS}a.md, *Time*\n//! {DOCS}a.md, *Close*, {DOCS}a.md, *Space*\n//! {DOCS}b.md\n");
        let pages =
            [("x.rs", code.as_str()), (concat!("do", "cs/a.md"), "## Time\n\n**Close.** So.\n*Space*\n")];
        let found = pages_named_in_code_exist(&Repo::planted(&pages));
        let lines: Vec<usize> = found.iter().map(|f| f.line).collect();
        assert_eq!(lines, [2, 3], "{found:?}");
        assert!(found[0].what.ends_with("has no part named Space"));
    }
}
