//! `parachron schema`: the JSON schema of each command's `--format json`.

use std::process::ExitCode;

use clap::ValueEnum;
use doctor::report::DoctorReport;
use inspect::tree::manifest::Manifest;
use keeper::event::Line as KeepLine;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};

use crate::commands::bench::report::BenchReport;
use crate::commands::clocks::report::ClocksReport;
use crate::commands::drift::report::DriftReport;
use crate::commands::lab::report::LabReport;
use crate::commands::watch::event::Line;
use crate::error::CliError;
use crate::output;

/// Print the JSON schema of a command's output.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Which command's output
    #[arg(value_name = "COMMAND")]
    of: Documented,
}

/// The commands whose output has a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Documented {
    /// The diagnosis, and the facts and figures it rests on
    Doctor,
    /// The measurements, one set per clock source
    Bench,
    /// What was saved, and what could not be
    Capture,
    /// The clock sources, cheapest first
    Clocks,
    /// The drift of each clock against each reference
    Drift,
    /// One line of the events
    Watch,
    /// One line of the disruptions, corrections and refusals
    Keep,
    /// The experiments, their figures and their checks
    Lab,
}

impl Documented {
    fn schema(self) -> Schema {
        match self {
            Self::Doctor => schema_of::<DoctorReport>(),
            Self::Bench => schema_of::<BenchReport>(),
            Self::Capture => schema_of::<Manifest>(),
            Self::Clocks => schema_of::<ClocksReport>(),
            Self::Drift => schema_of::<DriftReport>(),
            Self::Watch => schema_of::<Line>(),
            Self::Keep => schema_of::<KeepLine>(),
            Self::Lab => schema_of::<LabReport>(),
        }
    }
}

/// For serialisation: a field with a default when read is always written.
fn schema_of<T: JsonSchema>() -> Schema {
    SchemaSettings::draft2020_12().for_serialize().into_generator().into_root_schema_for::<T>()
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, CliError> {
    output::json(&args.of.schema())?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// `UPDATE=1` writes the schemas.
    #[test]
    fn published_schemas_match_the_types() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schema");
        let update = std::env::var_os("UPDATE").is_some();
        let mut names = Vec::new();
        for of in Documented::value_variants() {
            let name = of.to_possible_value().expect("no variant is skipped").get_name().to_owned();
            let path = folder.join(format!("{name}.json"));
            let text = serde_json::to_string_pretty(&of.schema()).expect("a schema is JSON") + "\n";
            if update {
                std::fs::write(&path, &text).expect("docs/schema can be written");
            }
            let published = std::fs::read_to_string(&path).unwrap_or_default();
            assert!(published == text, "docs/schema/{name}.json is stale: run `cargo xtask docs`");
            names.push(format!("{name}.json"));
        }
        for entry in std::fs::read_dir(&folder).expect("docs/schema is there") {
            let name = entry.expect("a folder's entry").file_name();
            assert!(
                names.iter().any(|known| name == known.as_str()),
                "{name:?} is no command's schema"
            );
        }
    }
}
