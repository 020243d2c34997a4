//! One violation: where, what, and the remedy.

use std::fmt;
use std::process::ExitCode;

/// A broken rule at a place in a file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Diagnostic {
    /// Relative to the project's root.
    pub(crate) path: String,
    /// From 1.
    pub(crate) line: usize,
    /// What is wrong.
    pub(crate) what: String,
    /// What to do.
    pub(crate) remedy: String,
}

impl Diagnostic {
    pub(crate) fn new(
        path: &str,
        line: usize,
        what: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self { path: path.to_owned(), line, what: what.into(), remedy: remedy.into() }
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}; {}", self.path, self.line, self.what, self.remedy)
    }
}

/// Prints the violations that one check found, and returns its exit code.
pub(crate) fn report(name: &str, diagnostics: &[Diagnostic]) -> ExitCode {
    for diagnostic in diagnostics {
        println!("{diagnostic}");
    }
    match diagnostics.len() {
        0 => {
            println!("{name}: no violations");
            ExitCode::SUCCESS
        }
        n => {
            println!("{name}: {n} violations");
            ExitCode::FAILURE
        }
    }
}
