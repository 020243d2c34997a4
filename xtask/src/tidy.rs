//! STYLE.md as a program. One file per rule; each violation names its remedy.

mod commands;
mod english;
mod links;
mod names;
mod ratchet;
mod rust;
mod source;
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
}
