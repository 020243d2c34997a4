//! A Rust file, parsed, with its tests told apart from the rest.

use std::collections::BTreeSet;

use syn::spanned::Spanned;
use syn::{Attribute, Item, ItemMod, Meta, Token, punctuated::Punctuated};

use crate::diagnostic::Diagnostic;
use crate::tidy::File;

/// A parsed Rust file.
pub(crate) struct RustSource<'a> {
    pub(crate) path: &'a str,
    pub(crate) text: &'a str,
    pub(crate) syntax: syn::File,
    /// The whole file is for tests only.
    pub(crate) is_test: bool,
}

impl RustSource<'_> {
    /// Modules for tests that stand in this file: their first and last lines.
    pub(crate) fn inline_tests(&self) -> Vec<(usize, usize)> {
        self.syntax
            .items
            .iter()
            .filter_map(|item| match item {
                Item::Mod(module) if module.content.is_some() && is_for_tests(&module.attrs) => {
                    Some(lines(module))
                }
                _ => None,
            })
            .collect()
    }

    /// The variants of an enum as the command line spells them.
    pub(crate) fn variants_of(&self, name: &str) -> Vec<String> {
        self.syntax
            .items
            .iter()
            .filter_map(|item| match item {
                Item::Enum(found) if found.ident == name => Some(found),
                _ => None,
            })
            .flat_map(|found| &found.variants)
            .filter(|variant| !is_flattened(&variant.attrs))
            .map(|variant| kebab_case(&variant.ident.to_string()))
            .collect()
    }
}

/// First and last line of a piece of syntax, attributes included.
pub(crate) fn lines(piece: &impl Spanned) -> (usize, usize) {
    let span = piece.span();
    (span.start().line, span.end().line)
}

/// Parses all Rust files; those that do not parse are complaints.
pub(crate) fn parse(files: &[File]) -> (Vec<RustSource<'_>>, Vec<Diagnostic>) {
    let mut sources = Vec::new();
    let mut diagnostics = Vec::new();
    for file in files.iter().filter(|file| file.has_extension("rs")) {
        let Some(text) = file.text() else { continue };
        match syn::parse_file(text) {
            Ok(syntax) => {
                let is_test = file.path.split('/').any(|part| part == "tests");
                sources.push(RustSource { path: &file.path, text, syntax, is_test });
            }
            Err(error) => diagnostics.push(Diagnostic::new(
                &file.path,
                error.span().start().line,
                format!("does not parse: {error}"),
                "mend the syntax",
            )),
        }
    }
    mark_test_files(&mut sources);
    (sources, diagnostics)
}

/// Marks the files behind `#[cfg(test)] mod name;`, and all below them.
fn mark_test_files(sources: &mut [RustSource<'_>]) {
    let mut places = BTreeSet::new();
    for source in sources.iter() {
        for item in &source.syntax.items {
            if let Item::Mod(module) = item
                && module.content.is_none()
                && is_for_tests(&module.attrs)
            {
                places.insert(place_of(source.path, module));
            }
        }
    }
    for source in sources {
        source.is_test |= places.iter().any(|place| {
            source
                .path
                .strip_prefix(place.as_str())
                .is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
        });
    }
}

/// Where a module's file is, without its extension.
fn place_of(parent: &str, module: &ItemMod) -> String {
    let stem = parent.strip_suffix(".rs").unwrap_or(parent);
    let (folder, name) = stem.rsplit_once('/').unwrap_or(("", stem));
    match name {
        "lib" | "main" | "mod" => format!("{folder}/{}", module.ident),
        _ => format!("{stem}/{}", module.ident),
    }
}

/// Whether attributes keep an item out of what people run: `cfg(test)`,
/// `cfg(all(test, …))`, `cfg(loom)`, `#[test]`.
pub(crate) fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        Meta::Path(path) => path.is_ident("test"),
        Meta::List(list) if list.path.is_ident("cfg") => {
            list.parse_args::<Meta>().is_ok_and(|condition| needs_test(&condition))
        }
        _ => false,
    })
}

/// Whether a `cfg` condition holds in test builds only.
fn needs_test(condition: &Meta) -> bool {
    match condition {
        Meta::Path(path) => path.is_ident("test") || path.is_ident("loom") || path.is_ident("miri"),
        Meta::List(list) => {
            let parts = list.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated);
            let Ok(parts) = parts else { return false };
            if list.path.is_ident("all") {
                parts.iter().any(needs_test)
            } else {
                list.path.is_ident("any") && !parts.is_empty() && parts.iter().all(needs_test)
            }
        }
        Meta::NameValue(_) => false,
    }
}

/// The attributes of an item that can be kept out of a build.
pub(crate) fn attributes_of(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// Whether clap takes a variant's own variants in its place.
fn is_flattened(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        Meta::List(list) if list.path.is_ident("command") => {
            list.parse_args::<Meta>().is_ok_and(|argument| argument.path().is_ident("flatten"))
        }
        _ => false,
    })
}

fn kebab_case(name: &str) -> String {
    let mut spelled = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !spelled.is_empty() {
            spelled.push('-');
        }
        spelled.extend(letter.to_lowercase());
    }
    spelled
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A source of its own, for the tests of the rules.
    pub(crate) fn source<'a>(path: &'a str, text: &'a str) -> RustSource<'a> {
        let syntax = syn::parse_file(text).expect("the test's source parses");
        RustSource { path, text, syntax, is_test: false }
    }

    #[test]
    fn conditions_that_need_tests_are_told_apart() {
        let needs = |condition: &str| {
            let text = format!("#[cfg({condition})] mod m {{}}");
            !source("a.rs", &text).inline_tests().is_empty()
        };
        for condition in ["test", "all(test, unix)", "all(unix, test)", "any(test, loom)", "miri"] {
            assert!(needs(condition), "{condition}");
        }
        for condition in ["unix", "not(test)", "any(test, unix)", "feature = \"test\""] {
            assert!(!needs(condition), "{condition}");
        }
    }

    #[test]
    fn test_files_are_found_by_their_declaration() {
        let file = |path: &str, text: &str| File { path: path.to_owned(), bytes: text.into() };
        let files = [
            file("crates/a/src/lib.rs", "mod real;\n#[cfg(test)]\nmod model;"),
            file("crates/a/src/model.rs", ""),
            file("crates/a/src/model/deep.rs", ""),
            file("crates/a/src/real.rs", "#[cfg(all(test, loom))] mod races;"),
            file("crates/a/src/real/races.rs", ""),
            file("crates/a/src/modeller.rs", ""),
            file("crates/a/tests/whole.rs", ""),
        ];
        let (sources, complaints) = parse(&files);
        assert_eq!(complaints, []);
        let tests: Vec<&str> = sources.iter().filter(|s| s.is_test).map(|s| s.path).collect();
        assert_eq!(
            tests,
            [
                "crates/a/src/model.rs",
                "crates/a/src/model/deep.rs",
                "crates/a/src/real/races.rs",
                "crates/a/tests/whole.rs"
            ]
        );
    }

    #[test]
    fn a_file_that_does_not_parse_is_a_complaint() {
        let files = [File { path: "a.rs".to_owned(), bytes: "fn x() {}\nfn {".into() }];
        let (sources, complaints) = parse(&files);
        assert!(sources.is_empty());
        assert!(complaints[0].to_string().starts_with("a.rs:2: does not parse"), "{complaints:?}");
    }

    #[test]
    fn variants_are_spelled_as_typed() {
        let text = "enum Command { Doctor(u8), EachSource, #[command(flatten)] Hidden(u8) }";
        assert_eq!(source("a.rs", text).variants_of("Command"), ["doctor", "each-source"]);
    }
}
