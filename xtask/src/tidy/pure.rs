//! A pure crate has no clock, thread, file or environment of its own:
//! readings are arguments, so that a test can hand in any clock.

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use quote::ToTokens;
use syn::{ImplItem, Item};

use crate::diagnostic::Diagnostic;
use crate::tidy::source::{RustSource, attributes_of, is_for_tests};

/// Folders of the pure crates; those still to come are in the list already.
const PURE: &[&str] = &[
    "crates/pvclock/src/",
    "crates/instruments/src/",
    "crates/disruptions/src/",
    "crates/doctor/src/",
    "crates/keeper/src/",
    "crates/timekeeper/src/",
    "crates/host/src/",
    "crates/clock/src/timeline/",
    "crates/simulator/src/",
];

/// Path segments that reach outside, and what to do instead.
const REACHES_OUT: &[(&[&str], &str)] = &[
    (&["Instant", "now"], "take the reading as an argument"),
    (&["SystemTime"], "take the reading as an argument"),
    (&["std", "thread"], "let platform start threads and hand in what they read"),
    (&["std", "fs"], "let platform read the file and hand in its content"),
    (&["std", "env"], "let the parachron crate read it and hand it in"),
    (&["std", "process"], "let platform run it and hand in its output"),
    (&["std", "net"], "let the parachron crate talk to the network"),
    (&["sleep"], "return what to wait for and let the caller wait"),
    (&["println"], "return the text; the parachron crate talks to people"),
    (&["eprintln"], "return the text; the parachron crate talks to people"),
];

pub(crate) fn check(source: &RustSource<'_>) -> Vec<Diagnostic> {
    if source.is_test || !PURE.iter().any(|folder| source.path.starts_with(folder)) {
        return Vec::new();
    }
    let mut paths = Vec::new();
    for item in &source.syntax.items {
        collect(item, &mut paths);
    }
    let mut diagnostics: Vec<Diagnostic> = paths
        .iter()
        .filter_map(|path| {
            let (named, remedy) = REACHES_OUT.iter().find(|(named, _)| path.names(named))?;
            let what = format!("a pure crate uses {}", named.join("::"));
            Some(Diagnostic::new(source.path, path.line, what, *remedy))
        })
        .collect();
    diagnostics.dedup();
    diagnostics
}

/// A path as written, with the line of its last segment.
struct Path {
    segments: Vec<String>,
    line: usize,
}

impl Path {
    fn names(&self, wanted: &[&str]) -> bool {
        self.segments.windows(wanted.len()).any(|part| part == wanted)
    }
}

/// The paths of an item, leaving out what is for tests.
fn collect(item: &Item, paths: &mut Vec<Path>) {
    if is_for_tests(attributes_of(item)) {
        return;
    }
    match item {
        Item::Mod(module) => {
            for item in module.content.iter().flat_map(|(_, items)| items) {
                collect(item, paths);
            }
        }
        Item::Impl(block) => {
            for item in &block.items {
                let for_tests =
                    matches!(item, ImplItem::Fn(function) if is_for_tests(&function.attrs));
                if !for_tests {
                    scan(item.to_token_stream(), &[], paths);
                }
            }
        }
        _ => scan(item.to_token_stream(), &[], paths),
    }
}

/// Finds paths in tokens, so that those inside macros are found too. A brace
/// after `::` continues the path before it: `use std::{fs, thread}`.
fn scan(tokens: TokenStream, prefix: &[String], paths: &mut Vec<Path>) {
    let mut segments = prefix.to_vec();
    let mut colons = 2;
    for token in tokens {
        match token {
            TokenTree::Punct(punct) if punct.as_char() == ':' => colons += 1,
            TokenTree::Ident(ident) => {
                if colons != 2 {
                    segments.clear();
                }
                segments.push(ident.to_string());
                paths.push(Path { segments: segments.clone(), line: ident.span().start().line });
                colons = 0;
            }
            TokenTree::Group(group) => {
                let continues = colons == 2 && group.delimiter() == Delimiter::Brace;
                let inner = if continues { segments.as_slice() } else { &[] };
                scan(group.stream(), inner, paths);
                segments.clear();
                colons = 0;
            }
            TokenTree::Punct(_) | TokenTree::Literal(_) => {
                segments = prefix.to_vec();
                colons = 2;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::source::tests::source;

    fn said(text: &str) -> Vec<String> {
        let pure = source("crates/doctor/src/a.rs", text);
        check(&pure).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn reaching_out_is_found_however_it_is_written() {
        for (text, named) in [
            ("fn f() { let _ = std::time::Instant::now(); }", "Instant::now"),
            ("fn f() { assert!(Instant::now() > t); }", "Instant::now"),
            ("use std::{collections::BTreeMap, fs, io};", "std::fs"),
            ("use std::{io, thread::{self, Builder}};", "std::thread"),
            ("use std::time::{Duration, SystemTime};", "SystemTime"),
            ("struct S { at: std::time::SystemTime }", "SystemTime"),
            ("impl A { fn f() { std::env::var(\"X\"); } }", "std::env"),
            ("mod inner { fn f() { thread::sleep(d) } }", "sleep"),
            ("fn f() { println!(\"{}\", 1) }", "println"),
        ] {
            let said = said(text);
            assert!(!said.is_empty(), "{text}");
            assert!(said[0].contains(&format!("a pure crate uses {named}; ")), "{text}: {said:?}");
            assert!(said[0].starts_with("crates/doctor/src/a.rs:1: "), "{said:?}");
        }
    }

    #[test]
    fn tests_comments_and_words_alike_are_left_alone() {
        for text in [
            "#[cfg(test)] mod tests { fn f() { std::fs::read(\"x\"); } }",
            "impl A { #[cfg(test)] fn f() { std::fs::read(\"x\"); } }",
            "/// As `std::thread` and Instant::now do.\nfn f() {}",
            "fn f(now: Instant, sleeps: u8) { let fs = \"std::fs\"; }",
            "use core::time::Duration; use std::fmt;",
            "fn f(std: u8) { (std, fs) }",
        ] {
            assert_eq!(said(text), Vec::<String>::new(), "{text}");
        }
    }

    #[test]
    fn other_crates_may() {
        let text = "fn f() { std::fs::read(\"x\"); }";
        assert_eq!(check(&source("crates/platform/src/a.rs", text)), []);
    }
}
