//! The formats of the lab's report: those of all commands, and two for test
//! runners.

use clap::ValueEnum;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum LabFormat {
    /// Tables for people, 80 columns
    Text,
    /// One JSON document; its schema: `parachron schema COMMAND`
    Json,
    /// All checks, in the Test Anything Protocol 14
    Tap,
    /// All checks, as JUnit's XML
    Junit,
}
