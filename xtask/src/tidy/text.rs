//! What no file may hold: binaries, bulk, this machine's folders, notes to
//! self.

use crate::diagnostic::Diagnostic;
use crate::project::Project;
use crate::tidy::File;

/// Bytes of a file.
const FILE_BYTES: usize = 512 * 1024;

/// Where bytes that are not text belong: seeds of the fuzzers, and what
/// machines really said.
const BINARY_FOLDERS: &[&str] = &["fuzz/seeds/", "testdata/"];

/// Words for work put off. Split, so that this line is none of them.
const PUT_OFF: &[&str] =
    &[concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X"), concat!("HA", "CK")];

/// Beginnings of people's home folders. Split, as above.
const HOMES: &[&str] = &[concat!("/ho", "me/"), concat!("/Us", "ers/"), concat!("/ro", "ot/")];

/// Folders of the machine this runs on.
#[derive(Debug)]
pub(crate) struct Machine {
    pub(crate) places: Vec<String>,
}

impl Machine {
    pub(crate) fn here(project: &Project) -> Self {
        Self { places: vec![project.root().to_string_lossy().into_owned()] }
    }
}

pub(crate) fn check(file: &File, machine: &Machine) -> Vec<Diagnostic> {
    let mut diagnostics = Vec::new();
    let mut say = |line: usize, what: String, remedy: &str| {
        diagnostics.push(Diagnostic::new(&file.path, line, what, remedy));
    };
    if file.bytes.len() > FILE_BYTES {
        say(
            1,
            format!("{} bytes, at most {FILE_BYTES}", file.bytes.len()),
            "make it when it is needed, or keep the part that matters",
        );
    }
    let may_be_binary = BINARY_FOLDERS.iter().any(|folder| file.path.starts_with(folder));
    let Some(text) = file.text() else {
        if !may_be_binary {
            say(1, "binary".to_owned(), "make it when it is needed, or put a seed in fuzz/seeds");
        }
        return diagnostics;
    };
    let is_code = ["rs", "toml", "sh", "c", "h"].iter().any(|kind| file.has_extension(kind));
    for (number, line) in (1..).zip(text.lines()) {
        if let Some(word) = PUT_OFF.iter().find(|word| is_code && puts_off(line, word)) {
            say(
                number,
                format!("{word} without a reason"),
                "do it, or say in brackets what it waits for",
            );
        }
        if let Some(place) = machine.places.iter().find(|place| begins_path(line, place)) {
            say(number, format!("a folder of this machine: {place}"), "write it from the root");
        } else if let Some(home) = HOMES.iter().find(|home| names_home(line, home)) {
            say(number, format!("somebody's home folder: {home}…"), "write it relative");
        }
    }
    diagnostics
}

/// The word stands alone and no bracketed reason follows it.
fn puts_off(line: &str, word: &str) -> bool {
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

/// The place stands at the beginning of a path, not in the middle of one.
fn begins_path(line: &str, place: &str) -> bool {
    path_beginnings(line, place).next().is_some()
}

/// As [`begins_path`], with a name after it.
fn names_home(line: &str, home: &str) -> bool {
    path_beginnings(line, home)
        .filter_map(|at| line[at + home.len()..].chars().next())
        .any(|next| next.is_ascii_alphanumeric() || next == '.')
}

fn path_beginnings<'a>(line: &'a str, place: &'a str) -> impl Iterator<Item = usize> + 'a {
    let inside_path = |c: char| c.is_alphanumeric() || matches!(c, '/' | '.' | '_' | '-' | '~');
    line.match_indices(place)
        .map(|(at, _)| at)
        .filter(move |at| !line[..*at].ends_with(inside_path))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(path: &str, bytes: &[u8]) -> Vec<String> {
        let file = File { path: path.to_owned(), bytes: bytes.to_vec() };
        let machine = Machine { places: vec!["/build/here".to_owned()] };
        check(&file, &machine).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn work_put_off_needs_a_reason() {
        let word = PUT_OFF[0];
        assert_eq!(
            said("a.rs", format!("fn f() {{}}\n// {word}: later\n").as_bytes()),
            [format!(
                "a.rs:2: {word} without a reason; do it, or say in brackets what it waits for"
            )]
        );
        let fine = format!("// {word}(kernel 6.18): read it\n// AUTO{word}S\n");
        assert_eq!(said("a.rs", fine.as_bytes()), Vec::<String>::new());
    }

    #[test]
    fn machines_folders_are_found_where_a_path_begins() {
        assert_eq!(
            said("a.md", b"see /build/here/x\n"),
            ["a.md:1: a folder of this machine: /build/here; write it from the root"]
        );
        let home = HOMES[0];
        assert_eq!(said("a.toml", format!("x = \"{home}ann/x\"").as_bytes()).len(), 1);
        let fine = format!("--root x\nat {home}\nchroot{home}ann\n~/build/here\n");
        assert_eq!(said("a.md", fine.as_bytes()), Vec::<String>::new());
    }

    #[test]
    fn bulk_and_binaries_stay_out() {
        let bulk = vec![b'a'; FILE_BYTES + 1];
        assert_eq!(
            said("docs/a.svg", &bulk),
            ["docs/a.svg:1: 524289 bytes, at most 524288; \
             make it when it is needed, or keep the part that matters"]
        );
        assert_eq!(
            said("docs/a.png", b"\x89PNG\0"),
            ["docs/a.png:1: binary; make it when it is needed, or put a seed in fuzz/seeds"]
        );
        assert_eq!(said("fuzz/seeds/page/one", b"\x89\0\xff"), Vec::<String>::new());
    }
}
