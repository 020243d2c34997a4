//! STYLE.md as a program. One file per rule; each violation names its remedy.

mod commands;
mod length;
mod links;
mod pure;
mod source;
mod text;
mod unsafety;

use std::fs;

use crate::diagnostic::Diagnostic;
use crate::project::Project;
use crate::tidy::source::RustSource;

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
    diagnostics.extend(judge(&files, &text::Machine::here(project)));
    diagnostics.sort();
    diagnostics
}

fn judge(files: &[File], machine: &text::Machine) -> Vec<Diagnostic> {
    let (sources, mut diagnostics) = source::parse(files);
    for source in &sources {
        diagnostics.extend(length::check(source));
        diagnostics.extend(pure::check(source));
        diagnostics.extend(unsafety::check(source));
    }
    for file in files {
        diagnostics.extend(text::check(file, machine));
    }
    diagnostics.extend(links::check(files));
    diagnostics.extend(commands::check(files, &parachron_commands(&sources)));
    diagnostics
}

/// The names after `parachron`, from the enum that defines them.
fn parachron_commands(sources: &[RustSource<'_>]) -> Vec<String> {
    sources
        .iter()
        .filter(|source| source.path == "crates/cli/src/commands.rs")
        .flat_map(|source| source.variants_of("Command"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn violations_of_all_rules_are_collected() {
        let file = |path: &str, text: &str| File { path: path.to_owned(), bytes: text.into() };
        let files = [
            file("crates/pvclock/src/lib.rs", "fn now() { let _ = std::time::Instant::now(); }\n"),
            file("crates/cli/src/commands.rs", "enum Command { Doctor(u8) }\n"),
            file("README.md", "[gone](docs/gone.md) and `parachron dokter`\n"),
        ];
        let said: Vec<String> = judge(&files, &text::Machine { places: Vec::new() })
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(said.len(), 3, "{said:#?}");
        assert!(said[0].starts_with("crates/pvclock/src/lib.rs:1: "), "{said:#?}");
        assert!(said[1].contains("docs/gone.md"), "{said:#?}");
        assert!(said[2].contains("dokter"), "{said:#?}");
    }
}
