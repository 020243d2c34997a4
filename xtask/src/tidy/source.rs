//! Rust source as text: string literals and item headings. It relies on rustfmt's layout.

/// Whether a Rust file is part of the product: no test, benchmark or tool.
pub(super) fn is_product(path: &str) -> bool {
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
pub(super) fn literals(text: &str) -> Vec<(usize, String)> {
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
pub(super) fn item<'l>(line: &'l str, keyword: &str) -> Option<&'l str> {
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
