//! What clippy does not check in a Rust file: its length and that of its inline tests, and what a
//! module with unsafe code states. It relies on rustfmt's layout: an inline module ends with a
//! brace at the beginning of a line.

use std::ops::Range;

use crate::diagnostic::Diagnostic;
use crate::tidy::File;

/// Lines of a file without its inline tests.
const FILE_LINES: usize = 400;
/// Lines of a file's inline tests.
const INLINE_TEST_LINES: usize = 150;

/// Allows unsafe code in a module.
const ALLOW: &str = "#![allow(unsafe_code)]";

pub(crate) fn check(file: &File) -> Vec<Diagnostic> {
    let Some(text) = file.text().filter(|_| file.has_extension("rs")) else { return Vec::new() };
    let lines: Vec<&str> = text.lines().collect();
    let mut diagnostics = Vec::new();
    let mut report = |line: usize, what: String, remedy: &str| {
        diagnostics.push(Diagnostic::new(&file.path, line + 1, what, remedy));
    };
    let tests = inline_tests(&lines);
    let in_tests: usize = tests.iter().map(Range::len).sum();
    let others = lines.len() - in_tests;
    if others > FILE_LINES {
        let what = format!("{others} lines without tests, at most {FILE_LINES}");
        report(0, what, "split it where its second idea begins");
    }
    if in_tests > INLINE_TEST_LINES {
        let what = format!("{in_tests} lines of inline tests, at most {INLINE_TEST_LINES}");
        report(tests[0].start, what, "move them to a sibling tests.rs");
    }
    let allow = lines.iter().position(|line| line.trim() == ALLOW);
    if let Some(line) = lines.iter().position(|line| line.trim() == ALLOW.replace('!', "")) {
        let what = "unsafe code allowed for an item".to_owned();
        report(line, what, "move it to a module headed by #![allow(unsafe_code)]");
    }
    if let Some(line) = allow {
        if !lines.iter().any(|line| is_unsafe(line)) {
            report(line, format!("{ALLOW} without unsafe code"), "remove the line");
        } else if !file.path.contains("/tests/") && !states_invariants(&lines) {
            let what = "the heading of a module with unsafe code states no invariant".to_owned();
            report(line, what, "state under //! the invariants that its blocks rely on");
        }
    }
    diagnostics
}

/// The modules for tests in this file, attribute to closing brace.
pub(crate) fn inline_tests(lines: &[&str]) -> Vec<Range<usize>> {
    let module = |start: usize| {
        let condition = lines[start].strip_prefix("#[cfg(")?;
        let mut words = condition.split(['(', ')', ',', ' ']);
        let for_tests = words.any(|word| ["test", "loom", "miri"].contains(&word));
        let heading = (start + 1..lines.len()).find(|&at| !lines[at].starts_with("#["))?;
        let is_module = lines[heading].contains("mod ") && lines[heading].ends_with('{');
        if !for_tests || condition.contains("not(test)") || !is_module {
            return None;
        }
        let end = (heading..lines.len()).find(|&at| lines[at] == "}")?;
        Some(start..end + 1)
    };
    (0..lines.len()).filter_map(module).collect()
}

/// The line has the keyword, outside a comment.
fn is_unsafe(line: &str) -> bool {
    let code = line.split("//").next().unwrap_or_default();
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    code.split(|c| !is_name(c)).any(|word| word == "unsafe")
}

fn states_invariants(lines: &[&str]) -> bool {
    let heading = lines.iter().map(|line| line.trim()).filter(|line| line.starts_with("//!"));
    let mut heading = heading.map(str::to_lowercase);
    heading.any(|line| line.contains("invariant") || line.contains("# safety"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<String> {
        let file = File { path: path.to_owned(), bytes: text.into() };
        check(&file).iter().map(ToString::to_string).collect()
    }

    fn lines(count: usize) -> String {
        "const _: u8 = 0;\n".repeat(count)
    }

    fn tests(condition: &str, inner: usize) -> String {
        format!("#[cfg({condition})]\n#[rustfmt::skip]\nmod tests {{\n{}}}\n", lines(inner))
    }

    #[test]
    fn a_file_has_400_lines_and_its_tests_do_not_count() {
        for condition in ["test", "all(test, not(miri))", "loom"] {
            let text = format!("{}{}", lines(400), tests(condition, 100));
            assert_eq!(found("a.rs", &text), Vec::<String>::new());
        }
        let text = format!("{}{}", lines(401), tests("test", 100));
        assert_eq!(
            found("a.rs", &text),
            ["a.rs:1: 401 lines without tests, at most 400; split it where its second idea begins"]
        );
        let others = format!("{}{}", lines(400), tests("not(test)", 9));
        assert_eq!(found("a.rs", &others).len(), 1);
    }

    #[test]
    fn inline_tests_have_150_lines() {
        assert_eq!(found("a.rs", &tests("test", 146)), Vec::<String>::new());
        assert_eq!(
            found("a.rs", &tests("test", 147)),
            ["a.rs:1: 151 lines of inline tests, at most 150; move them to a sibling tests.rs"]
        );
    }

    #[test]
    fn an_unsafe_module_states_its_invariants() {
        let body = format!("{ALLOW}\nfn f() {{ unsafe {{ g() }} }}\n");
        let bare = format!("//! Maps pages.\n{body}");
        assert_eq!(
            found("src/a.rs", &bare),
            ["src/a.rs:2: the heading of a module with unsafe code states no invariant; \
                 state under //! the invariants that its blocks rely on"]
        );
        assert_eq!(found("a/tests/a.rs", &bare), Vec::<String>::new());
        for heading in ["//! Invariants: I1, never null.", "//! # Safety\n//!\n//! Never null."] {
            assert_eq!(found("src/a.rs", &format!("{heading}\n{body}")), Vec::<String>::new());
        }
    }

    #[test]
    fn unsafe_code_is_allowed_per_module_and_where_there_is_some() {
        let unused = format!("//! Invariants.\n{ALLOW}\n// unsafe\nfn not_unsafe() {{}}\n");
        assert_eq!(
            found("a.rs", &unused),
            ["a.rs:2: #![allow(unsafe_code)] without unsafe code; remove the line"]
        );
        let item = format!("{}\nfn f() {{ unsafe {{ g() }} }}\n", ALLOW.replace('!', ""));
        assert!(found("a.rs", &item)[0].starts_with("a.rs:1: unsafe code allowed for an item; "));
    }
}
