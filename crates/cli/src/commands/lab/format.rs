//! The forms of the lab's report: those of all commands, and two by which
//! test runners know checks.

use clap::ValueEnum;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// Tables for people, 80 columns
    Text,
    /// One JSON document; its schema is in docs/schema
    Json,
    /// Tables for a report
    Markdown,
    /// One figure a line, with a heading
    Csv,
    /// All checks, by the Test Anything Protocol 14
    Tap,
    /// All checks, as JUnit's XML
    Junit,
}
