//! Files and functions that one can hold in the head.

use super::repo::TextFile;
use super::{Finding, Repo};
use std::collections::BTreeSet;
use syn::spanned::Spanned as _;
use syn::visit::{self, Visit};

/// Lines of a file outside its test modules.
const MAX_FILE: usize = 500;

/// Lines of a function from its signature to its closing brace.
const MAX_FUNCTION: usize = 70;

/// The production part of a file is at most [`MAX_FILE`] lines.
pub fn files_are_short(repo: &Repo) -> Vec<Finding> {
    let for_tests = modules_for_tests(repo);
    let mut findings = Vec::new();
    for (file, tree) in repo.rust_files() {
        let lines = production_lines(file, tree);
        if lines > MAX_FILE && !is_test_file(&file.path, &for_tests) {
            let what = format!("{lines} lines outside tests, at most {MAX_FILE}: which concept is missing?");
            findings.push(Finding::new(&file.path, 0, what));
        }
    }
    findings
}

/// Every function, in tests too, is at most [`MAX_FUNCTION`] lines.
pub fn functions_are_short(repo: &Repo) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, tree) in repo.rust_files() {
        let mut functions = Functions::default();
        functions.visit_file(tree);
        for (name, first, last) in functions.0 {
            let lines = last - first + 1;
            if lines > MAX_FUNCTION {
                let what = format!("fn {name} has {lines} lines, at most {MAX_FUNCTION}");
                findings.push(Finding::new(&file.path, first, what));
            }
        }
    }
    findings
}

/// Whether an item with these attributes is compiled for tests alone.
pub fn is_for_tests(attrs: &[syn::Attribute]) -> bool {
    attrs.iter().any(|attr| match &attr.meta {
        syn::Meta::List(list) if list.path.is_ident("cfg") => {
            let condition = list.tokens.to_string();
            condition == "test" || condition.starts_with("all (test")
        }
        _ => false,
    })
}

/// All lines less those of inline modules for tests.
fn production_lines(file: &TextFile, tree: &syn::File) -> usize {
    let in_tests: usize = test_modules(tree)
        .filter(|module| module.content.is_some())
        .map(|module| module.span().end().line - module.span().start().line + 1)
        .sum();
    file.text.lines().count() - in_tests
}

fn test_modules(tree: &syn::File) -> impl Iterator<Item = &syn::ItemMod> {
    tree.items.iter().filter_map(|item| match item {
        syn::Item::Mod(module) if is_for_tests(&module.attrs) => Some(module),
        _ => None,
    })
}

/// Paths, without `.rs`, of modules that are declared in another file and for tests alone.
fn modules_for_tests(repo: &Repo) -> BTreeSet<String> {
    let mut modules = BTreeSet::new();
    for (file, tree) in repo.rust_files() {
        let stem = file.path.trim_end_matches(".rs");
        let (dir, name) = stem.rsplit_once('/').unwrap_or(("", stem));
        let home = if matches!(name, "lib" | "main" | "mod") { dir } else { stem };
        modules.extend(test_modules(tree).map(|module| format!("{home}/{}", module.ident)));
    }
    modules
}

fn is_test_file(path: &str, for_tests: &BTreeSet<String>) -> bool {
    let stem = path.trim_end_matches(".rs");
    path.ends_with("/tests.rs")
        || path.split('/').any(|part| matches!(part, "tests" | "benches" | "examples"))
        || for_tests.iter().any(|module| stem == module || stem.starts_with(&format!("{module}/")))
}

/// Name, first line and last line of each function with a body.
#[derive(Default)]
struct Functions(Vec<(String, usize, usize)>);

impl Functions {
    fn note(&mut self, signature: &syn::Signature, body: &syn::Block) {
        let first = signature.span().start().line;
        self.0.push((signature.ident.to_string(), first, body.span().end().line));
    }
}

impl<'ast> Visit<'ast> for Functions {
    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        self.note(&function.sig, &function.block);
        visit::visit_item_fn(self, function);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        self.note(&function.sig, &function.block);
        visit::visit_impl_item_fn(self, function);
    }

    fn visit_trait_item_fn(&mut self, function: &'ast syn::TraitItemFn) {
        if let Some(body) = &function.default {
            self.note(&function.sig, body);
        }
        visit::visit_trait_item_fn(self, function);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn long_file(lines: usize) -> String {
        "const A: u8 = 0;\n".repeat(lines)
    }

    #[test]
    fn canary_a_long_file_is_found() {
        let (fits, over) = (long_file(MAX_FILE), long_file(MAX_FILE + 1));
        let repo = Repo::planted(&[("a.rs", &fits), ("b.rs", &over)]);
        let found = files_are_short(&repo);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].path, "b.rs");
    }

    #[test]
    fn test_code_does_not_count_but_code_after_it_does() {
        let inline = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", long_file(MAX_FILE));
        let over = format!("{inline}{}", long_file(MAX_FILE + 1));
        let (declares, long) = ("#[cfg(test)]\nmod oracle;\nmod table;\n", long_file(MAX_FILE + 1));
        let repo = Repo::planted(&[
            ("src/inline.rs", &inline),
            ("src/over.rs", &over),
            ("src/lib.rs", declares),
            ("src/oracle.rs", &long),
            ("src/oracle/tree.rs", &long),
            ("src/table.rs", &long),
            ("src/a/tests.rs", &long),
            ("tests/flows.rs", &long),
        ]);
        let paths: Vec<String> = files_are_short(&repo).into_iter().map(|f| f.path).collect();
        assert_eq!(paths, ["src/over.rs", "src/table.rs"]);
    }

    #[test]
    fn canary_a_long_function_is_found_wherever_it_stands() {
        let body = "    let _ = ('{', \"{\"); // {\n".repeat(MAX_FUNCTION - 1);
        let fits = format!("fn fits() {{\n{}}}\n", body.trim_end_matches("    let _ = ('{', \"{\"); // {\n"));
        let code = format!(
            "{fits}fn a() {{\n{body}}}\nimpl S {{\nfn b() {{\n{body}}}\n}}\ntrait T {{\nfn c() {{\n{body}}}\n}}\n"
        );
        let found = functions_are_short(&Repo::planted(&[("a.rs", &code)]));
        let names: Vec<&str> = found.iter().filter_map(|f| f.what.split(' ').nth(1)).collect();
        assert_eq!(names, ["a", "b", "c"]);
    }

    #[test]
    fn a_function_of_just_the_limit_is_short() {
        let body = "    f();\n".repeat(MAX_FUNCTION - 2);
        let code = format!("/// Not counted.\n#[test]\nfn fits() {{\n{body}}}\n");
        assert_eq!(functions_are_short(&Repo::planted(&[("a.rs", &code)])), []);
    }
}
