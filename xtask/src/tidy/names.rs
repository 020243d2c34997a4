//! Names as STYLE.md asks for them: a function is a verb or a noun of the field, a type name is
//! unique in the workspace, and an object is divided by its state, not over many files.

use std::collections::{BTreeMap, BTreeSet};

use crate::diagnostic::Diagnostic;
use crate::tidy::Ratchet;
use crate::tidy::{self, File, rust};

/// Prepositions, participles and pronouns that are no name alone.
const BARE: [&str; 36] = [
    "of", "by", "at", "in_", "to", "from_", "with", "on", "told", "said", "kept", "found", "seen",
    "shown", "known", "given", "made", "done", "asked", "heard", "taken", "meant", "left", "gone",
    "read_", "it", "one", "all_of", "others", "these", "those", "which", "what", "who", "when",
    "why",
];

/// Type names that every crate may have: they are read with their module.
const COMMON: [&str; 12] = [
    "Args", "Error", "Settings", "Options", "Kind", "State", "Refused", "Report", "Source",
    "Reader", "Writer", "Counts",
];

/// Files with inherent `impl` blocks of one type.
const MOST_FILES: usize = 3;

/// Where the numbers of these ratchets are.
const FILE: &str = "xtask/src/tidy/names.rs";

const FUNCTIONS: Ratchet =
    Ratchet::at_most(0, FILE, "functions named by a lone preposition or participle");
const TYPES: Ratchet = Ratchet::at_most(1, FILE, "type names that several files define");
const SLICED: Ratchet =
    Ratchet::at_most(2, FILE, "types whose methods are in more than three files");

/// All three rules, over the product's code.
pub(super) fn count(files: &[File]) -> [(Ratchet, Vec<Diagnostic>); 3] {
    let mut functions = Vec::new();
    let mut types: BTreeMap<String, BTreeSet<(&str, usize)>> = BTreeMap::new();
    let mut impls: BTreeMap<(String, String), BTreeSet<(&str, usize)>> = BTreeMap::new();
    for file in files.iter().filter(|file| tidy::is_product(&file.path)) {
        let Some(text) = file.text().filter(|_| file.has_extension("rs")) else { continue };
        let lines: Vec<&str> = text.lines().collect();
        let tests = rust::inline_tests(&lines);
        for (at, line) in lines.iter().enumerate() {
            if tests.iter().any(|test| test.contains(&at)) {
                continue;
            }
            if let Some(name) = tidy::item(line, "fn").filter(|name| BARE.contains(name)) {
                let what = format!("fn {name}");
                functions.push(Diagnostic::new(
                    &file.path,
                    at + 1,
                    what,
                    "name the verb or the noun",
                ));
            }
            let defined =
                ["struct", "enum", "trait"].iter().find_map(|kind| tidy::item(line, kind));
            if let Some(name) = defined.filter(|name| !COMMON.contains(name)) {
                types.entry(name.to_owned()).or_default().insert((&file.path, at + 1));
            }
            if let Some(name) = inherent(line) {
                let folder = file.path.split("/src/").next().unwrap_or_default().to_owned();
                impls.entry((folder, name.to_owned())).or_default().insert((&file.path, at + 1));
            }
        }
    }
    let types =
        several(types.into_iter().collect(), |places| files_of(places) > 1, "name what it holds");
    let impls = impls.into_iter().map(|((_, name), places)| (name, places)).collect();
    let sliced = several(impls, |places| files_of(places) > MOST_FILES, "divide it by its state");
    [(FUNCTIONS, functions), (TYPES, types), (SLICED, sliced)]
}

fn files_of(places: &BTreeSet<(&str, usize)>) -> usize {
    places.iter().map(|(path, _)| path).collect::<BTreeSet<_>>().len()
}

/// A diagnostic a name, with all its places.
fn several(
    named: Vec<(String, BTreeSet<(&str, usize)>)>,
    is_wrong: impl Fn(&BTreeSet<(&str, usize)>) -> bool,
    remedy: &str,
) -> Vec<Diagnostic> {
    let wrong = named.into_iter().filter(|(_, places)| is_wrong(places));
    wrong
        .filter_map(|(name, places)| {
            let (path, line) = *places.first()?;
            let others: Vec<&str> = places.iter().skip(1).map(|(path, _)| *path).collect();
            let what = format!("{name} is also in {}", others.join(", "));
            Some(Diagnostic::new(path, line, what, remedy))
        })
        .collect()
}

/// The type of an inherent `impl` block that begins in this line.
fn inherent(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("impl")?;
    let rest = match rest.strip_prefix('<') {
        // The generics end where as many angles closed as opened.
        Some(generics) => {
            let mut depth = 1;
            let end = generics.find(|c| {
                depth += i32::from(c == '<') - i32::from(c == '>');
                depth == 0
            })?;
            &generics[end + 1..]
        }
        None => rest,
    };
    let rest = rest.strip_prefix(' ')?;
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_')?;
    (!rest.contains(" for ") && end > 0).then(|| &rest[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_inherent_impl_is_no_trait() {
        assert_eq!(inherent("impl Keeper {"), Some("Keeper"));
        assert_eq!(inherent("impl<'a, T: Into<u8>> Row<'a, T> {"), Some("Row"));
        assert_eq!(inherent("impl fmt::Display for Keeper {"), None);
        assert_eq!(inherent("    impl Keeper {"), None);
    }

    #[test]
    fn names_are_held_to_the_rules() {
        let file = |path: &str, text: &str| File { path: path.to_owned(), bytes: text.into() };
        let files = [
            file(
                "crates/a/src/lib.rs",
                "pub struct Line;\nimpl Line {\n    fn told(&self) {}\n}\n",
            ),
            file("crates/a/src/b.rs", "impl Line {}\n"),
            file("crates/a/src/c.rs", "impl Line {}\n"),
            file("crates/a/src/d.rs", "impl Line {}\nstruct Args;\n"),
            file("crates/b/src/lib.rs", "enum Line {}\nstruct Args;\nimpl Line {}\n"),
            file("crates/b/tests/x.rs", "fn told() {}\nstruct Line;\n"),
        ];
        let found = count(&files).map(|(_, found)| found.into_iter().map(|wrong| wrong.what));
        let found = found.map(Iterator::collect::<Vec<_>>);
        assert_eq!(found[0], ["fn told"]);
        assert_eq!(found[1], ["Line is also in crates/b/src/lib.rs"]);
        let sliced = "Line is also in crates/a/src/c.rs, crates/a/src/d.rs, crates/a/src/lib.rs";
        assert_eq!(found[2], [sliced]);
    }
}
