//! What no file may contain: binaries, bulk, folders of this machine,
//! unexplained notes about work to do.

use crate::diagnostic::Diagnostic;
use crate::tidy::File;

/// Bytes of a file.
const FILE_BYTES: usize = 512 * 1024;

/// Where binary files belong: seeds of the fuzzers, and captures of machines.
const BINARY_FOLDERS: &[&str] = &["validation/fuzz/seeds/", "testdata/"];

/// Words for unfinished work. Split, so that this file passes its own check.
const UNFINISHED: &[&str] =
    &[concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X"), concat!("HA", "CK")];

/// Beginnings of people's home folders. Split, as above.
const HOMES: &[&str] = &[concat!("/ho", "me/"), concat!("/Us", "ers/"), concat!("/ro", "ot/")];

/// Checks a file of the project whose folder on this machine is `root`.
pub(crate) fn check(file: &File, root: &str) -> Vec<Diagnostic> {
    let mut diagnostics = Vec::new();
    let mut report = |line: usize, what: String, remedy: &str| {
        diagnostics.push(Diagnostic::new(&file.path, line, what, remedy));
    };
    if file.bytes.len() > FILE_BYTES {
        report(
            1,
            format!("{} bytes, at most {FILE_BYTES}", file.bytes.len()),
            "generate it when needed, or keep the part that matters",
        );
    }
    let may_be_binary = BINARY_FOLDERS.iter().any(|folder| file.path.starts_with(folder));
    let Some(text) = file.text() else {
        if !may_be_binary {
            report(
                1,
                "binary".to_owned(),
                "generate it when needed, or put a seed in validation/fuzz/seeds",
            );
        }
        return diagnostics;
    };
    let is_code = ["rs", "toml", "sh", "c", "h"].iter().any(|kind| file.has_extension(kind));
    for (number, line) in (1..).zip(text.lines()) {
        if let Some(word) = UNFINISHED.iter().find(|word| is_code && is_unfinished(line, word)) {
            report(
                number,
                format!("{word} without a reason"),
                "finish it, or state in brackets what it waits for",
            );
        }
        if path_beginnings(line, root).next().is_some() {
            report(number, format!("a folder of this machine: {root}"), "write it from the root");
        } else if let Some(home) = HOMES.iter().find(|home| names_home(line, home)) {
            report(number, format!("somebody's home folder: {home}…"), "write it relative");
        }
    }
    diagnostics
}

/// The word is a whole word without a reason in brackets after it.
fn is_unfinished(line: &str, word: &str) -> bool {
    let letter = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        let rest = &line[at + word.len()..];
        !line[..at].ends_with(letter) && !rest.starts_with(letter) && !has_reason(rest)
    })
}

fn has_reason(rest: &str) -> bool {
    let inside = rest.strip_prefix('(').and_then(|rest| rest.split_once(')'));
    inside.is_some_and(|(reason, _)| !reason.trim().is_empty())
}

/// The line has a path in this folder, with a name after it.
fn names_home(line: &str, home: &str) -> bool {
    path_beginnings(line, home)
        .filter_map(|at| line[at + home.len()..].chars().next())
        .any(|next| next.is_ascii_alphanumeric() || next == '.')
}

/// Where a path begins with this folder: not in the middle of another path.
fn path_beginnings<'a>(line: &'a str, place: &'a str) -> impl Iterator<Item = usize> + 'a {
    let inside_path = |c: char| c.is_alphanumeric() || matches!(c, '/' | '.' | '_' | '-' | '~');
    line.match_indices(place)
        .map(|(at, _)| at)
        .filter(move |at| !line[..*at].ends_with(inside_path))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, bytes: &[u8]) -> Vec<String> {
        let file = File { path: path.to_owned(), bytes: bytes.to_vec() };
        check(&file, "/build/here").iter().map(ToString::to_string).collect()
    }

    #[test]
    fn unfinished_work_needs_a_reason() {
        let word = UNFINISHED[0];
        assert_eq!(
            found("a.rs", format!("fn f() {{}}\n// {word}: later\n").as_bytes()),
            [format!(
                "a.rs:2: {word} without a reason; finish it, or state in brackets what it waits for"
            )]
        );
        let fine = format!("// {word}(kernel 6.18): read it\n// AUTO{word}S\n");
        assert_eq!(found("a.rs", fine.as_bytes()), Vec::<String>::new());
    }

    #[test]
    fn machines_folders_are_found_where_a_path_begins() {
        assert_eq!(
            found("a.md", b"see /build/here/x\n"),
            ["a.md:1: a folder of this machine: /build/here; write it from the root"]
        );
        let home = HOMES[0];
        assert_eq!(found("a.toml", format!("x = \"{home}ann/x\"").as_bytes()).len(), 1);
        let fine = format!("--root x\nat {home}\nchroot{home}ann\n~/build/here\n");
        assert_eq!(found("a.md", fine.as_bytes()), Vec::<String>::new());
    }

    #[test]
    fn bulk_and_binaries_stay_out() {
        let bulk = vec![b'a'; FILE_BYTES + 1];
        assert_eq!(
            found("docs/a.svg", &bulk),
            ["docs/a.svg:1: 524289 bytes, at most 524288; \
             generate it when needed, or keep the part that matters"]
        );
        assert_eq!(
            found("docs/a.png", b"\x89PNG\0"),
            [
                "docs/a.png:1: binary; generate it when needed, or put a seed in validation/fuzz/seeds"
            ]
        );
        assert_eq!(found("validation/fuzz/seeds/page/one", b"\x89\0\xff"), Vec::<String>::new());
    }
}
