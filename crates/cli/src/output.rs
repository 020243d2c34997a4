//! How results leave the program: one format each, chosen by `--format`.

use clap::ValueEnum;

/// The forms a result can take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Tables for people, 80 columns
    Text,
    /// One JSON document; its schema is in docs/schema
    Json,
    /// Tables for a report
    Markdown,
    /// One row a line, with a heading
    Csv,
}
