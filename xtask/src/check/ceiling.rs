//! The ceiling: lines of code in the workspace may only fall. Code is what a person reads to know
//! what the programs do: blank lines, comments and tests do not count.

use std::collections::BTreeMap;
use std::fs;

use crate::diagnostic::Diagnostic;
use crate::project::Project;

/// The file that states the most lines; a change that removes code lowers the number.
const FILE: &str = "xtask/ceiling";

/// Prints the lines of each crate, and fails above the number in [`FILE`].
pub(super) fn check(project: &Project) -> Vec<Diagnostic> {
    let mut crates: BTreeMap<String, usize> = BTreeMap::new();
    for path in project.files().into_iter().filter(|path| is_code(path)) {
        let text = fs::read_to_string(project.path(&path)).unwrap_or_default();
        *crates.entry(room(&path)).or_default() += lines(&text);
    }
    println!();
    for (name, lines) in &crates {
        println!("  {lines:>6} {name}");
    }
    // A workspace of its own is not part of this one.
    let inside = crates.iter().filter(|(name, _)| !name.starts_with("extras/"));
    let all = inside.map(|(_, lines)| lines).sum::<usize>();
    let number = fs::read_to_string(project.path(FILE)).unwrap_or_default();
    println!("  {all:>6} of {}", number.trim());
    match number.trim().parse::<usize>() {
        Ok(most) if all <= most => Vec::new(),
        Ok(most) => {
            let what = format!("{all} lines of code, at most {most}");
            vec![Diagnostic::new(FILE, 1, what, "remove as much as the change brings in")]
        }
        Err(error) => vec![Diagnostic::new(FILE, 1, error.to_string(), "write one number")],
    }
}

/// Whether a file is Rust, and no test as a whole.
fn is_code(path: &str) -> bool {
    path.ends_with(".rs") && !path.split('/').any(|part| ["tests", "tests.rs"].contains(&part))
}

/// The folder below `crates`, `validation` or `extras`, whatever crates are in it.
fn room(path: &str) -> String {
    path.split('/').take(2).collect::<Vec<_>>().join("/")
}

/// Lines that are neither blank, nor a comment, nor in an item for tests alone. It relies on
/// rustfmt's layout: an item ends at its own indentation.
fn lines(text: &str) -> usize {
    let mut count = 0;
    let mut source = text.lines();
    while let Some(line) = source.next() {
        let trimmed = line.trim_start();
        let indent = line.len() - trimmed.len();
        if trimmed.starts_with("#[cfg(test)]") || trimmed.starts_with("#[cfg(all(test") {
            let ends = |line: &str| {
                let end = line.trim_start();
                line.len() - end.len() == indent
                    && (end.starts_with('}') || end.ends_with(';'))
                    && !end.starts_with("#[")
            };
            source.by_ref().find(|line| ends(line));
        } else if !trimmed.is_empty() && !trimmed.starts_with("//") {
            count += 1;
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_counted_without_blanks_comments_and_tests() {
        let text = "//! About.\n\nuse a::b;\n\n/// Doc.\npub fn f() {\n    // Why.\n    g();\n}\n\n\
                    #[cfg(test)]\nmod tests {\n    fn t() {\n        g();\n    }\n}\n";
        assert_eq!(lines(text), 4);
        assert_eq!(lines("#[cfg(test)]\nmod tests;\nuse x;\n"), 1);
        assert_eq!(lines("#[cfg(test)]\n#[path = \"t.rs\"]\nmod tests;\nuse x;\n"), 1);
    }

    #[test]
    fn tests_are_files_and_folders_of_that_name() {
        assert!(is_code("crates/a/src/testing.rs") && !is_code("crates/a/tests/a.rs"));
        assert!(!is_code("crates/a/src/b/tests.rs") && !is_code("README.md"));
        assert_eq!(room("crates/pvclock/c/src/lib.rs"), "crates/pvclock");
    }
}
