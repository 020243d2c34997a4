//! STYLE.md as a program. One file per rule; each violation names its remedy.

mod commands;
mod english;
mod links;
mod names;
mod rust;
mod text;

use std::fs;

use crate::diagnostic::Diagnostic;
use crate::project::Project;

/// One of the project's files.
#[derive(Debug)]
pub(crate) struct File {
    /// Relative to the root.
    pub(crate) path: String,
    pub(crate) bytes: Vec<u8>,
}

impl File {
    /// The text, when it is text.
    fn text(&self) -> Option<&str> {
        match std::str::from_utf8(&self.bytes) {
            Ok(text) if !text.contains('\0') => Some(text),
            _ => None,
        }
    }

    fn has_extension(&self, extension: &str) -> bool {
        self.path.rsplit_once('.').is_some_and(|(_, found)| found == extension)
    }
}

/// Checks every file of the project against every rule.
pub(crate) fn check(project: &Project) -> Vec<Diagnostic> {
    let mut files = Vec::new();
    let mut diagnostics = Vec::new();
    for path in project.files() {
        match fs::read(project.path(&path)) {
            Ok(bytes) => files.push(File { path, bytes }),
            Err(error) => diagnostics.push(Diagnostic::new(
                &path,
                1,
                format!("not readable: {error}"),
                "fix its permissions or remove it",
            )),
        }
    }
    diagnostics.extend(judge(&files, &project.root().to_string_lossy()));
    let ratchets = english::count(&files).into_iter().chain(names::count(&files));
    diagnostics.extend(ratchets.flat_map(|(ratchet, found)| ratchet.hold(found)));
    diagnostics.sort();
    diagnostics
}

fn judge(files: &[File], root: &str) -> Vec<Diagnostic> {
    let mut diagnostics = Vec::new();
    for file in files {
        diagnostics.extend(rust::check(file));
        diagnostics.extend(text::check(file, root));
    }
    diagnostics.extend(links::check(files));
    diagnostics.extend(commands::check(files));
    diagnostics
}

/// A rule, and how often it may be broken.
#[derive(Debug)]
struct Ratchet {
    rule: &'static str,
    /// The file that states the number.
    file: &'static str,
    most: usize,
    /// By how many fewer there may be before the number has to be lowered.
    slack: usize,
}

impl Ratchet {
    const fn at_most(most: usize, file: &'static str, rule: &'static str) -> Self {
        Self { rule, file, most, slack: 0 }
    }

    /// Nothing if as many were found as may be; all that were found if they are more, and where
    /// to lower the number if they are fewer.
    fn hold(&self, found: Vec<Diagnostic>) -> Vec<Diagnostic> {
        let Self { rule, file, most, slack } = self;
        let count = found.len();
        if count > *most {
            let what = format!("{rule}: {count}, at most {most}");
            let summary = Diagnostic::new(file, 1, what, "fix those listed");
            return found.into_iter().chain([summary]).collect();
        }
        if count + slack < *most {
            let what = format!("{rule}: {count}, and {most} are allowed");
            let remedy = format!("lower the number of this ratchet to {count}");
            return vec![Diagnostic::new(file, 1, what, remedy)];
        }
        Vec::new()
    }
}

/// Whether a Rust file is part of the product: no test, benchmark or tool.
fn is_product(path: &str) -> bool {
    let is_test = |part: &str| ["tests", "tests.rs", "benches", "examples"].contains(&part);
    path.starts_with("crates/") && !path.split('/').any(is_test)
}

/// Where a scan of source stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Code,
    Comment,
    /// In a string, with the number of `#` that end it; without, a backslash escapes.
    Text(Option<usize>),
}

/// String literals with the line, from 0, that each begins in.
fn literals(text: &str) -> Vec<(usize, String)> {
    let chars: Vec<char> = text.chars().collect();
    let mut found = Vec::new();
    let (mut state, mut literal, mut begins) = (State::Code, String::new(), 0);
    let (mut at, mut line) = (0, 0);
    while let Some(&c) = chars.get(at) {
        let next = chars.get(at + 1).copied();
        match (state, c) {
            (State::Code, '/') if next == Some('/') => state = State::Comment,
            (State::Comment, '\n') => state = State::Code,
            (State::Code, '"') => {
                let hashes = chars[..at].iter().rev().take_while(|c| **c == '#').count();
                let is_raw = at > hashes && matches!(chars[at - hashes - 1], 'r');
                state = State::Text(is_raw.then_some(hashes));
                begins = line;
            }
            // A character, and no lifetime.
            (State::Code, '\'') if next == Some('\\') => at += 2,
            (State::Code, '\'') if chars.get(at + 2) == Some(&'\'') => at += 2,
            (State::Text(None), '\\') => {
                at += 1;
                line += usize::from(next == Some('\n'));
                literal.push(' ');
            }
            (State::Text(hashes), '"') if ends(&chars[at + 1..], hashes) => {
                found.push((begins, std::mem::take(&mut literal)));
                at += hashes.unwrap_or(0);
                state = State::Code;
            }
            (State::Text(_), _) => literal.push(c),
            _ => {}
        }
        line += usize::from(c == '\n');
        at += 1;
    }
    found
}

fn ends(rest: &[char], hashes: Option<usize>) -> bool {
    let hashes = hashes.unwrap_or(0);
    rest.len() >= hashes && rest[..hashes].iter().all(|c| *c == '#')
}

/// The name after a keyword that begins an item: `fn`, `struct`, `enum`, `trait`.
fn item<'l>(line: &'l str, keyword: &str) -> Option<&'l str> {
    let mut words = line.split_whitespace().peekable();
    while let Some(word) = words.peek() {
        let is_before = ["pub", "const", "async", "unsafe", "extern", "\"C\""].contains(word);
        if !is_before && !word.starts_with("pub(") {
            break;
        }
        words.next();
    }
    (words.next()? == keyword).then_some(())?;
    let name = words.next()?;
    let end = name.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(name.len());
    (end > 0).then(|| &name[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn violations_of_all_rules_are_collected() {
        let file = |path: &str, text: &str| File { path: path.to_owned(), bytes: text.into() };
        let files = [
            file("crates/pvclock/src/lib.rs", "#[allow(unsafe_code)]\n"),
            file("crates/cli/src/commands.rs", "enum Command { Doctor(u8) }\n"),
            file("README.md", "[gone](docs/gone.md) and `parachron dokter`\n"),
        ];
        let found: Vec<String> =
            judge(&files, "/build/here").iter().map(ToString::to_string).collect();
        assert_eq!(found.len(), 3, "{found:#?}");
        assert!(found[0].starts_with("crates/pvclock/src/lib.rs:1: "), "{found:#?}");
        assert!(found[1].contains("docs/gone.md"), "{found:#?}");
        assert!(found[2].contains("dokter"), "{found:#?}");
    }

    #[test]
    fn a_count_may_only_fall() {
        let found = |count| vec![Diagnostic::new("a.rs", 1, "told", "write reported"); count];
        let ratchet = Ratchet { rule: "words", file: "rules.rs", most: 2, slack: 0 };
        assert_eq!(ratchet.hold(found(2)), []);
        let more = ratchet.hold(found(3));
        assert_eq!((more.len(), more[3].what.as_str()), (4, "words: 3, at most 2"));
        let fewer = ratchet.hold(found(1));
        assert_eq!(fewer[0].remedy, "lower the number of this ratchet to 1");
        assert_eq!(Ratchet { slack: 1, ..ratchet }.hold(found(1)), []);
        assert_eq!((more[3].path.as_str(), fewer[0].path.as_str()), ("rules.rs", "rules.rs"));
    }

    #[test]
    fn literals_are_found_with_their_line() {
        let text = "let a = \"one\";\n// \"no\"\nlet b = r#\"two \"x\" \"#;\nlet c = '\"';\n\
                    let d = \"th\\\"ree \\\n    four\";\nfn e<'a>(x: &'a str) { f(\"\", '\\'') }\n";
        let found = literals(text);
        let expected = [(0, "one"), (2, "two \"x\" "), (4, "th ree      four"), (6, "")];
        assert_eq!(found, expected.map(|(line, text)| (line, text.to_owned())));
    }

    #[test]
    fn items_are_named_by_their_heading() {
        assert_eq!(item("    pub(crate) const fn told(&self) {", "fn"), Some("told"));
        assert_eq!(item("pub struct Row<'a> {", "struct"), Some("Row"));
        assert_eq!(item("enum State;", "enum"), Some("State"));
        assert_eq!(item("let fn_name = 3;", "fn"), None);
        assert_eq!(item("// fn told", "fn"), None);
    }
}
