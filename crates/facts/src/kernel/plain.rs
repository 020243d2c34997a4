//! A line as plain text, whatever a terminal, a page, a mail or a journal made of it.

use std::borrow::Cow;

/// A line as text: without colour codes and control characters, HTML's entities and tags, and
/// the encoding of a journal's or a program's JSON.
pub(super) fn plain(line: &str) -> Cow<'_, str> {
    let mut text = Cow::Borrowed(line);
    if let Some(message) = message_of_journal(&text) {
        text = Cow::Owned(message);
    }
    // A record of names and values: its message must not look like a string of source code.
    let start = text.trim_start();
    if ["{\"", "time=\"", "level=", "ts="].iter().any(|name| start.starts_with(name)) {
        text = Cow::Owned(text.replace('"', ""));
    }
    if text.contains('&') {
        text = Cow::Owned(without_entities(&text));
    }
    if !is_printable(text.as_bytes()) {
        text = Cow::Owned(without_controls(&text));
    }
    text
}

/// Whether all bytes are printable ASCII. Each is looked at, as the compiler then takes many at once.
pub(super) fn is_printable(bytes: &[u8]) -> bool {
    bytes.iter().fold(true, |all, byte| all & (b' '..=b'~').contains(byte))
}

fn without_controls(line: &str) -> String {
    let mut text = String::with_capacity(line.len());
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        if c == '\u{1b}' {
            if chars.next_if_eq(&'[').is_some() {
                // CSI: up to its final byte.
                let _final = chars.by_ref().find(|c| ('@'..='~').contains(c));
            }
        } else if c == '\t' || c == '\u{a0}' {
            text.push(' ');
        } else if !c.is_control() && c != '\u{feff}' {
            text.push(c);
        }
    }
    text
}

/// `&lt;`, `&#39;`, `&amp;gt;`, and the tags that stand around a pasted log.
fn without_entities(line: &str) -> String {
    const ENTITIES: [(&str, &str); 9] = [
        ("&amp;", "&"),
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&quot;", "\""),
        ("&#34;", "\""),
        ("&#39;", "'"),
        ("&#x27;", "'"),
        ("&apos;", "'"),
        ("&nbsp;", " "),
    ];
    ENTITIES.iter().fold(line.to_owned(), |text, (entity, sign)| text.replace(entity, sign))
}

/// `"MESSAGE":"…"` of `journalctl -o json`, `MESSAGE=…` of `-o export`, docker's `"log":"…"`.
fn message_of_journal(line: &str) -> Option<String> {
    if let Some(message) = line.strip_prefix("MESSAGE=") {
        return Some(message.to_owned());
    }
    let field = |name: &str| {
        let (_, rest) = line.split_once(name)?;
        rest.trim_start().strip_prefix(':')?.trim_start().strip_prefix('"')
    };
    if !line.trim_start().starts_with(['{', '"']) {
        return None;
    }
    let stamp = |name: &str| {
        let value = field(name)?.split('"').next()?;
        value.parse::<f64>().ok()
    };
    let quoted = field("\"MESSAGE\"").or_else(|| field("\"log\""))?;
    let message = unescaped(quoted);
    // A message of the kernel has its stamp beside it, where the journal keeps that.
    let is_kernel = field("\"_TRANSPORT\"").is_some_and(|value| value.starts_with("kernel"));
    let program = field("\"SYSLOG_IDENTIFIER\"").and_then(|value| value.split('"').next());
    Some(match (stamp("\"__MONOTONIC_TIMESTAMP\""), program) {
        (Some(us), _) if is_kernel => format!("[{:.6}] {message}", us / 1e6),
        (_, Some(program)) if program != "kernel" => format!("{program}[0]: {message}"),
        _ => message,
    })
}

/// A string of JSON, from after its quote.
fn unescaped(quoted: &str) -> String {
    let mut text = String::new();
    let mut chars = quoted.chars();
    while let Some(c) = chars.next().filter(|c| *c != '"') {
        match (c, if c == '\\' { chars.next() } else { None }) {
            ('\\', Some('u')) => {
                let code: String = chars.by_ref().take(4).collect();
                let code = u32::from_str_radix(&code, 16).ok().and_then(char::from_u32);
                text.push(code.unwrap_or('?'));
            }
            ('\\', Some('n' | 't' | 'r')) => text.push(' '),
            ('\\', Some(escaped)) => text.push(escaped),
            _ => text.push(c),
        }
    }
    text
}

/// Undoes quoted-printable, where a line shows that it is: `wd_now=3D1`, ` =20` at its end,
/// `6=2E04`, where no program writes a figure before the sign.
pub(super) fn without_printable_quotes(line: &str) -> Option<String> {
    let bytes = line.as_bytes();
    let code = |at: usize| {
        let digits = line.get(at + 1..at + 3)?;
        let is_code = digits.bytes().all(|b| b.is_ascii_digit() || (b'A'..=b'F').contains(&b));
        is_code.then(|| u8::from_str_radix(digits, 16).ok())?
    };
    let is_proof = |at: usize| {
        let before = at.checked_sub(1).map_or(b' ', |before| bytes[before]);
        code(at).is_some_and(|code| {
            code == b'='
                || code >= 0x80
                || (!before.is_ascii_alphabetic() && !b"_)]".contains(&before))
        })
    };
    let mut signs = (0..bytes.len()).filter(|at| bytes[*at] == b'=');
    if !signs.any(is_proof) {
        return None;
    }
    let (mut decoded, mut at) = (Vec::with_capacity(line.len()), 0);
    while at < bytes.len() {
        match if bytes[at] == b'=' { code(at) } else { None } {
            Some(code) => {
                decoded.push(code);
                at += 3;
            }
            None => {
                decoded.push(bytes[at]);
                at += 1;
            }
        }
    }
    Some(String::from_utf8_lossy(&decoded).into_owned())
}
