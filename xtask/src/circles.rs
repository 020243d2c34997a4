//! Files of one crate that import each other: to change one, all must be
//! known. Read from the `use` lines of each file and from the paths in its code; what a file
//! only re-exports (`pub use`) is not an import. It relies on rustfmt's layout.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use crate::diagnostic::Diagnostic;
use crate::project::Project;
use crate::tidy;

/// The circles that are accepted, by their files, each with its reason.
const ACCEPTED: &[(&[&str], &str)] = &[];

/// The modules of a crate: from the path in the crate to what it imports.
type Imports = BTreeMap<Vec<String>, BTreeSet<Vec<String>>>;

pub(crate) fn check(project: &Project) -> Vec<Diagnostic> {
    let mut crates: BTreeMap<String, BTreeMap<Vec<String>, String>> = BTreeMap::new();
    for path in project.files() {
        let Some((root, file)) = root_of(&path) else { continue };
        let Some(module) = module_of(file) else { continue };
        let text = fs::read_to_string(project.path(&path)).unwrap_or_default();
        crates.entry(root.to_owned()).or_default().insert(module, text);
    }
    let found = crates.iter().flat_map(|(root, texts)| {
        let name = move |module: &Vec<String>| match module.as_slice() {
            [] if project.path(root).join("lib.rs").is_file() => format!("{root}lib.rs"),
            [] => format!("{root}main.rs"),
            parts => format!("{root}{}.rs", parts.join("/")),
        };
        circles(&imports(texts)).into_iter().map(move |circle| circle.iter().map(name).collect())
    });
    found.filter(|circle: &Vec<String>| !is_accepted(circle)).map(violation).collect()
}

fn is_accepted(circle: &[String]) -> bool {
    ACCEPTED.iter().any(|(files, _)| files == &circle)
}

fn violation(circle: Vec<String>) -> Diagnostic {
    let what = format!("import each other in a circle: {}", circle.join(", "));
    Diagnostic::new(&circle[0], 1, what, "move what they share to a file of its own")
}

/// The folder of a crate's modules, and a file's path below it. Each folder below `src/bin` is
/// a crate; a program of one file has no modules.
fn root_of(path: &str) -> Option<(&str, &str)> {
    let (before, file) = path.split_once("/src/")?;
    let mut root = before.len() + "/src/".len();
    if let Some(file) = file.strip_prefix("bin/") {
        let (program, _) = file.split_once('/')?;
        root += "bin/".len() + program.len() + 1;
    }
    Some(path.split_at(root))
}

/// The module in a file, by its path in its crate; none for tests.
fn module_of(file: &str) -> Option<Vec<String>> {
    let stem = file.strip_suffix(".rs")?;
    let stem = stem.strip_suffix("/mod").unwrap_or(stem);
    let module: Vec<String> = stem.split('/').map(str::to_owned).collect();
    let is_root = stem == "lib" || stem == "main";
    let is_test = module.iter().any(|part| part == "tests");
    (!is_test).then(|| if is_root { Vec::new() } else { module })
}

fn imports(texts: &BTreeMap<Vec<String>, String>) -> Imports {
    let targets = |module: &Vec<String>, text: &String| -> BTreeSet<Vec<String>> {
        let paths = uses(text).into_iter().flat_map(|tree| expand(&tree));
        let paths = paths.chain(written_out(text));
        let file = paths.filter_map(|path| {
            let full = absolute(module, &path, texts)?;
            (0..=full.len()).rev().map(|n| full[..n].to_vec()).find(|m| texts.contains_key(m))
        });
        file.filter(|target| target != module).collect()
    };
    texts.iter().map(|(module, text)| (module.clone(), targets(module, text))).collect()
}

/// The trees of the private `use` items outside inline tests.
fn uses(text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().collect();
    let tests = tidy::inline_tests(&lines);
    let code = lines.iter().enumerate().filter(|(at, _)| !tests.iter().any(|t| t.contains(at)));
    let code = code.map(|(_, line)| line.split("//").next().unwrap_or_default().trim());
    let (mut uses, mut open) = (Vec::new(), None::<String>);
    for line in code {
        match (&mut open, line.strip_prefix("use ")) {
            (Some(tree), _) => tree.push_str(line),
            (None, Some(start)) => open = Some(start.to_owned()),
            (None, None) => continue,
        }
        if line.ends_with(';') {
            uses.extend(open.take().map(|tree| tree.trim_end_matches(';').to_owned()));
        }
    }
    uses
}

/// The paths from `crate` or `super` in code outside inline tests and `use` items.
fn written_out(text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().collect();
    let tests = tidy::inline_tests(&lines);
    let code = lines.iter().enumerate().filter(|(at, _)| !tests.iter().any(|t| t.contains(at)));
    let (mut paths, mut is_use) = (Vec::new(), false);
    for line in code.map(|(_, line)| line.split("//").next().unwrap_or_default().trim()) {
        is_use |= line.starts_with("use ") || (line.starts_with("pub") && line.contains(" use "));
        if !is_use {
            let words = line.split(|c: char| !c.is_alphanumeric() && c != '_' && c != ':');
            let begins = |word: &&str| word.starts_with("crate::") || word.starts_with("super::");
            paths.extend(words.filter(begins).map(|word| word.trim_end_matches(':').to_owned()));
        }
        is_use &= !line.ends_with(';');
    }
    paths
}

/// The paths of a tree: `a::{b, c::{d}}` has `a::b` and `a::c::d`.
fn expand(tree: &str) -> Vec<String> {
    let Some((prefix, rest)) = tree.split_once('{') else { return vec![tree.trim().to_owned()] };
    let inside = rest.rsplit_once('}').map_or(rest, |(inside, _)| inside);
    let (mut depth, mut part, mut paths) = (0_u32, String::new(), Vec::new());
    for letter in inside.chars().chain([',']) {
        match letter {
            ',' if depth == 0 => {
                let whole = std::mem::take(&mut part);
                let inner = expand(whole.trim()).into_iter().filter(|path| !path.is_empty());
                paths.extend(inner.map(|path| format!("{}{path}", prefix.trim())));
                continue;
            }
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        part.push(letter);
    }
    paths
}

/// A path from the crate's root; none if it leads to another crate.
fn absolute(
    module: &[String],
    path: &str,
    texts: &BTreeMap<Vec<String>, String>,
) -> Option<Vec<String>> {
    let parts: Vec<String> = path.split("::").map(|part| part.trim().to_owned()).collect();
    let ups = parts.iter().take_while(|part| *part == "super").count();
    let child = [module, &parts[..1]].concat();
    match parts[0].as_str() {
        "crate" => Some(parts[1..].to_vec()),
        "self" => Some([module, &parts[1..]].concat()),
        "super" => Some([module.get(..module.len().checked_sub(ups)?)?, &parts[ups..]].concat()),
        _ => texts.contains_key(&child).then(|| [module, &parts].concat()),
    }
}

/// The sets of modules of which each reaches every other.
fn circles(imports: &Imports) -> BTreeSet<Vec<Vec<String>>> {
    let reach = |from: &Vec<String>| -> BTreeSet<Vec<String>> {
        let (mut seen, mut open) = (BTreeSet::new(), vec![from]);
        while let Some(module) = open.pop() {
            let next = imports.get(module).into_iter().flatten();
            open.extend(next.filter(|target| seen.insert((*target).clone())));
        }
        seen
    };
    let reached: BTreeMap<_, _> = imports.keys().map(|module| (module, reach(module))).collect();
    let circle = |module: &Vec<String>| -> Vec<Vec<String>> {
        let others = reached[module].iter();
        others
            .filter(|other| reached.get(other).is_some_and(|r| r.contains(module)))
            .cloned()
            .collect()
    };
    imports.keys().map(circle).filter(|circle| circle.len() > 1).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let module = |(file, text): &(&str, &str)| Some((module_of(file)?, (*text).to_owned()));
        let circles = circles(&imports(&files.iter().filter_map(module).collect()));
        let name = |circle: &Vec<Vec<String>>| {
            circle.iter().map(|module| module.join("/")).collect::<Vec<_>>().join(" ")
        };
        circles.iter().map(name).collect()
    }

    #[test]
    fn a_circle_is_found_however_its_imports_are_written() {
        let a = "use crate::b::{self, c::{D, E}};\n";
        for back in [
            "use crate::a::X;\n",
            "use super::super::a;\n",
            "use crate::{\n    a::X,\n    y,\n};\n",
        ] {
            let files = [("lib.rs", ""), ("a.rs", a), ("b.rs", ""), ("b/c.rs", back)];
            assert_eq!(found(&files), ["a b/c"], "{back}");
        }
        let body = [
            ("lib.rs", ""),
            ("a.rs", "use crate::b::C;\n"),
            ("b.rs", "fn c() {\n    crate::a::d(super::e::F);\n}\n"),
        ];
        assert_eq!(found(&body), ["a b"]);
        let pair = [("main.rs", "use parts::run;\n"), ("parts.rs", "use super::Args;\n")];
        assert_eq!(found(&pair), [" parts"]);
    }

    #[test]
    fn a_folder_of_programs_holds_a_crate_each() {
        let root = |path| root_of(path).unwrap();
        assert_eq!(root("crates/a/src/b/c.rs"), ("crates/a/src/", "b/c.rs"));
        assert_eq!(root("v/e/src/bin/p/main.rs"), ("v/e/src/bin/p/", "main.rs"));
        assert_eq!(root("v/e/src/bin/p/a/b.rs"), ("v/e/src/bin/p/", "a/b.rs"));
        assert_eq!(root_of("v/e/src/bin/p.rs"), None);
        assert_eq!(root_of("v/e/tests/p.rs"), None);
    }

    #[test]
    fn what_is_not_an_import_makes_no_circle() {
        for text in [
            "pub use crate::a::X;\n",
            "// use crate::a::X;\n",
            "use other::a::X;\n",
            "#[cfg(test)]\nmod tests {\n    use crate::a::X;\n}\n",
        ] {
            let files = [("lib.rs", ""), ("a.rs", "use crate::b::Y;\n"), ("b.rs", text)];
            assert_eq!(found(&files), Vec::<String>::new(), "{text}");
        }
        let tests = [("a.rs", "use crate::a::tests::T;\n"), ("a/tests.rs", "use super::X;\n")];
        assert_eq!(found(&tests), Vec::<String>::new());
    }

    #[test]
    fn few_circles_are_accepted_and_each_has_a_reason() {
        assert!(ACCEPTED.len() <= 4);
        assert!(ACCEPTED.iter().all(|(files, why)| files.len() > 1 && !why.is_empty()));
    }
}
