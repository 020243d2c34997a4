//! Glue words that STYLE.md bans: in the Markdown that people read, in the string literals of
//! programs, which become messages, help and remedies, and in comments.

use crate::diagnostic::Diagnostic;
use crate::tidy::Ratchet;
use crate::tidy::{self, File, rust};

/// A word or phrase, and what to write instead.
const BANNED: [(&str, &str); 24] = [
    ("told", "\"reported\", \"set\" or \"advertised\""),
    ("tells", "\"reports\", \"shows\" or \"prints\""),
    ("anew", "\"again\""),
    ("goes on", "\"continues\" or \"resumes\""),
    ("go on", "\"continue\""),
    ("went on", "\"continued\""),
    ("for want of", "\"without\""),
    ("heeded", "\"taken into account\""),
    ("heeds", "\"takes into account\""),
    ("vouches", "\"confirms\""),
    ("vouched", "\"confirmed\""),
    ("mend", "\"fix\""),
    ("mends", "\"fixes\""),
    ("mended", "\"fixed\""),
    ("for ever", "\"forever\", or the condition that ends it"),
    ("in place of", "\"instead of\""),
    ("again and again", "\"repeatedly\""),
    ("so many", "the number, or \"a number of\""),
    ("so long", "the duration, or \"as long as\""),
    ("said", "\"reported\", \"stated\" or \"logged\""),
    ("says", "\"reports\", \"states\" or \"logs\""),
    ("stands", "\"is\" or \"stops\""),
    ("by itself", "\"alone\", or who does it"),
    ("but for", "\"except for\""),
];

/// Phrases of which a part is banned alone.
const PLAIN: [&str; 2] = ["stands for", "stands still"];

/// Where the numbers of these ratchets are.
const FILE: &str = "xtask/src/tidy/english.rs";

/// What people read first, and what programs print: none is left.
const PROSE: Ratchet = Ratchet::at_most(0, FILE, "glue words in README, ARCHITECTURE and guides");
const DOCS: Ratchet = Ratchet::at_most(0, FILE, "glue words in other documents");
const MESSAGES: Ratchet = Ratchet::at_most(0, FILE, "glue words in messages");
/// Many branches edit comments at once: each lowers the number when it has removed some dozens.
const COMMENTS: Ratchet =
    Ratchet { file: FILE, rule: "glue words in comments", most: 400, slack: 50 };
/// Of the crates that other projects read.
const PUBLISHED: Ratchet = Ratchet::at_most(0, FILE, "glue words in published docs");

/// All kinds.
pub(super) fn count(files: &[File]) -> [(Ratchet, Vec<Diagnostic>); 5] {
    let (mut prose, mut docs, mut messages) = (Vec::new(), Vec::new(), Vec::new());
    let (mut comments, mut published) = (Vec::new(), Vec::new());
    for file in files {
        let Some(text) = file.text() else { continue };
        if file.has_extension("md") {
            let found = in_markdown(&file.path, text);
            if is_first_read(&file.path) { prose.extend(found) } else { docs.extend(found) }
        } else if file.has_extension("rs") && tidy::is_product(&file.path) {
            messages.extend(in_strings(&file.path, text));
            let found = in_comments(&file.path, text);
            if is_published(&file.path) { published.extend(found) } else { comments.extend(found) }
        }
    }
    [
        (PROSE, prose),
        (DOCS, docs),
        (MESSAGES, messages),
        (COMMENTS, comments),
        (PUBLISHED, published),
    ]
}

fn is_published(path: &str) -> bool {
    ["crates/pvclock/", "crates/host/"].iter().any(|room| path.starts_with(room))
}

fn is_first_read(path: &str) -> bool {
    !path.contains('/') || path.starts_with("docs/guide/") || path.starts_with("packaging/")
}

fn in_markdown(path: &str, text: &str) -> Vec<Diagnostic> {
    // The list of banned words names them.
    if path == "STYLE.md" {
        return Vec::new();
    }
    let mut is_code = false;
    let mut found = Vec::new();
    for (at, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        } else if !is_code {
            found.extend(in_line(path, at, &without_code(line)));
        }
    }
    found
}

fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect::<Vec<_>>().join("`")
}

fn in_comments(path: &str, text: &str) -> Vec<Diagnostic> {
    let lines: Vec<&str> = text.lines().collect();
    let tests = rust::inline_tests(&lines);
    let comments = lines.iter().enumerate().filter(|(at, line)| {
        line.trim_start().starts_with("//") && !tests.iter().any(|test| test.contains(at))
    });
    comments.flat_map(|(at, line)| in_line(path, at, &without_code(line))).collect()
}

fn in_strings(path: &str, text: &str) -> Vec<Diagnostic> {
    let lines: Vec<&str> = text.lines().collect();
    let tests = rust::inline_tests(&lines);
    let literals = tidy::literals(text);
    // One word alone is a key.
    let literals = literals.iter().filter(|(at, literal)| {
        literal.contains(' ') && !tests.iter().any(|test| test.contains(at))
    });
    literals.flat_map(|(at, literal)| in_line(path, *at, &without_fields(literal))).collect()
}

/// A format string without the names of what it prints.
fn without_fields(literal: &str) -> String {
    let parts = literal.split('{').enumerate();
    parts
        .map(
            |(at, part)| {
                if at == 0 { part } else { part.split_once('}').map_or(part, |(_, rest)| rest) }
            },
        )
        .collect()
}

fn in_line(path: &str, at: usize, text: &str) -> Vec<Diagnostic> {
    let text = PLAIN.iter().fold(text.to_lowercase(), |text, plain| text.replace(plain, ""));
    let is_inside = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || "_-".contains(c));
    let stands_alone = |start: usize, phrase: &str| {
        !is_inside(text[..start].chars().next_back())
            && !is_inside(text[start + phrase.len()..].chars().next())
    };
    let found = BANNED.iter().filter(|(phrase, _)| {
        text.match_indices(phrase).any(|(start, _)| stands_alone(start, phrase))
    });
    found
        .map(|(phrase, instead)| {
            Diagnostic::new(path, at + 1, format!("\"{phrase}\""), format!("write {instead}"))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn glue_words_are_found_in_prose_and_messages_alone() {
        let lines = |found: Vec<Diagnostic>| {
            found.iter().map(|one| (one.line, one.what.clone())).collect::<Vec<_>>()
        };
        let text = "It is told.\n```\ntold\n```\nRun `told`; untold is a word.\nIt goes on.\n";
        let found = lines(in_markdown("docs/a.md", text));
        assert_eq!(found, [(1, "\"told\"".to_owned()), (6, "\"goes on\"".to_owned())]);
        let code = "// told\nfn told() { print(\"Mend it: {told}\"); }\n\
                    #[cfg(test)]\nmod tests {\n    const A: &str = \"anew\";\n}\n";
        let found = lines(in_strings("crates/a/src/b.rs", code));
        assert_eq!(found, [(2, "\"mend\"".to_owned())]);
        let found = lines(in_comments("crates/a/src/b.rs", code));
        assert_eq!(found, [(1, "\"told\"".to_owned())]);
        assert!(in_line("a", 0, "It stands for a `key`, but stands still.").is_empty());
        assert_eq!(lines(in_line("a", 0, "So it stands.")), [(1, "\"stands\"".to_owned())]);
    }
}
