//! `parachron schema`: the JSON schema of each command's `--format json`.

use std::process::ExitCode;

use clap::ValueEnum;
use daemon::status::DaemonStatus;
use doctor::report::DoctorReport;
use inspect::tree::manifest::Manifest;
use keeper::event::Line as KeepLine;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};

use crate::commands::bench::BenchOutput;
use crate::commands::drift::report::DriftReport;
use crate::commands::export::ExportReport;
#[cfg(target_arch = "x86_64")]
use crate::commands::lab::LabReport;
use crate::commands::latency::report::LatencyReport;
use crate::commands::tell::line::TellLine;
use crate::commands::watch::event::Line;
use crate::error::CliError;
use crate::output;

/// Print the JSON schema of a command's output.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Command whose output the schema describes
    #[arg(value_name = "COMMAND")]
    of: Documented,
}

/// The commands whose output has a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Documented {
    /// The diagnosis, and the facts and figures it rests on
    Doctor,
    /// The measurements, one set per clock source; or the list of clock sources
    Bench,
    /// What was saved, and what could not be
    Capture,
    /// The drift of each clock against each reference
    Drift,
    /// One line: an event
    Watch,
    /// One line: a disruption, a correction or a refusal
    Keep,
    /// The daemon's status
    Status,
    /// One line: the result of sending a guest the time
    Tell,
    /// The metrics
    Export,
    /// The experiments, their figures and their checks
    #[cfg(target_arch = "x86_64")]
    Lab,
    /// How late programs run
    Latency,
}

impl Documented {
    fn schema(self) -> Schema {
        match self {
            Self::Doctor => schema_of::<DoctorReport>(),
            Self::Bench => schema_of::<BenchOutput>(),
            Self::Capture => schema_of::<Manifest>(),
            Self::Drift => schema_of::<DriftReport>(),
            Self::Watch => schema_of::<Line>(),
            Self::Keep => schema_of::<KeepLine>(),
            Self::Tell => schema_of::<TellLine>(),
            Self::Status => schema_of::<DaemonStatus>(),
            Self::Export => schema_of::<ExportReport>(),
            #[cfg(target_arch = "x86_64")]
            Self::Lab => schema_of::<LabReport>(),
            Self::Latency => schema_of::<LatencyReport>(),
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
    use clap::CommandFactory;

    use super::*;

    /// The help of `--format` points here by the command's name.
    #[test]
    fn a_schema_has_the_name_of_its_command() {
        let program = crate::commands::CommandLine::command();
        for of in Documented::value_variants() {
            let name = of.to_possible_value().expect("no variant is skipped").get_name().to_owned();
            assert!(program.find_subcommand(&name).is_some(), "{name}");
        }
    }
}
