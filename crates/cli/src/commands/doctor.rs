//! `parachron doctor`: what is wrong with a machine's clocks, and what to do.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::builder::{PossibleValuesParser, TypedValueParser};
use doctor::finding::{CheckState, Diagnosis, Severity, TimeState};
use doctor::report::{DoctorReport, Origin};
use doctor::report_text::{self, ReportExtent};
use doctor::rule::RuleSelection;
use doctor::rules::RULES;
use facts::kernel::pasted::{Pasted, PastedLog};
use inspect::measure;
use inspect::tree::Tree;
use instruments::measurements::Measurements;
use sources::NtpPeer;

use crate::commands::capture::captured;
use crate::error::CliError;
use crate::output::TerminalProgress;
use crate::output::table::{width, wrap};
use crate::output::{self, Format};

/// Exit code for a finding at or above `--fail-on`.
const FOUND: u8 = 1;

/// Time for the measurement: with the facts, the whole run stays under 3 s.
const MEASURING: Duration = Duration::from_millis(1500);

/// Diagnose this machine's clocks: what is wrong, and what to do about it.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Examine a captured folder instead of this machine
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,

    /// Examine only a log of the kernel, chronyd or ntpd; `-` is standard input. Quotes,
    /// prompts, syslog prefixes and colour codes are ignored
    #[arg(long, value_name = "FILE", conflicts_with_all = ["root", "no_measure"])]
    log: Option<PathBuf>,

    /// Compare the clock with this NTP server; repeatable. If the host shows its clock, that is
    /// compared without this option
    #[arg(long, value_name = "HOST[:PORT]", value_parser = server_name,
          conflicts_with_all = ["root", "log"])]
    ntp: Vec<String>,

    /// Apply only this rule; repeatable
    #[arg(long, value_name = "RULE", value_parser = rule_names(), hide_possible_values = true)]
    only: Vec<String>,

    /// Leave out this rule; repeatable
    #[arg(long, value_name = "RULE", value_parser = rule_names(), hide_possible_values = true)]
    ignore: Vec<String>,

    /// Show all grounds, reasons and remedies, and the rules without a finding
    #[arg(long, short)]
    verbose: bool,

    /// Print one line for motd or Nagios. Exit code 0: the time is right and no check that was
    /// possible found a risk; 1: a warning; 2: an error; 3: neither, but it is not known whether
    /// the time is right, or nothing could be examined
    #[arg(long, short, conflicts_with_all = ["verbose", "format", "fail_on"])]
    quiet: bool,

    /// How to print the result
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,

    /// Exit with code 1 on a finding of this severity or worse
    #[arg(long, value_name = "SEVERITY", value_parser = severities())]
    fail_on: Option<Severity>,

    /// Skip the measurement: facts only, in milliseconds
    #[arg(long)]
    no_measure: bool,

    /// List all rules with what they check, and exit
    #[arg(long, exclusive = true)]
    rules: bool,
}

/// The severities that `--fail-on` names.
fn severities() -> impl TypedValueParser<Value = Severity> {
    PossibleValuesParser::new(["warning", "error"])
        .map(|name| if name == "error" { Severity::Error } else { Severity::Warning })
}

/// The rules that `--only` and `--ignore` name; for another name, clap suggests the
/// nearest.
fn rule_names() -> impl TypedValueParser<Value = String> {
    PossibleValuesParser::new(RULES.iter().map(|rule| rule.name))
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, CliError> {
    if args.rules {
        output::text(&text())?;
        return Ok(ExitCode::SUCCESS);
    }
    let selection = RuleSelection { only: args.only.clone(), ignore: args.ignore.clone() };
    let report = match (&args.log, &args.root) {
        (Some(file), _) => examined_log(file, &selection),
        (None, Some(folder)) => examined(folder, &selection),
        (None, None) => {
            let report =
                DoctorReport::with_rules(inspect::read(&Tree::live()), measured(args), &selection);
            Ok(report.with_origin(Origin {
                host: Some(rustix::system::uname().nodename().to_string_lossy().into_owned()),
                ..now()
            }))
        }
    };
    if args.quiet {
        return print_quiet(report);
    }
    let report = report?;
    match args.format {
        Format::Text => output::text(&report_text::render(
            &report,
            extent(args),
            output::screen(output::colours()),
        ))?,
        Format::Json => output::json(&report)?,
    }
    let is_time_known = report.diagnosis.time.state != TimeState::NotKnown;
    if args.log.is_none() && !is_time_known && !is_judged(&report.diagnosis) {
        let remedy = "run it on a folder of `parachron capture DIR`, without --only, or as root";
        let cause = "nothing could be examined".to_owned();
        return Err(CliError::Failed { cause, remedy: remedy.to_owned() });
    }
    Ok(exit_code(&report.diagnosis, args.fail_on))
}

/// Whether any rule had the facts that it asked for, or none was left to check.
fn is_judged(diagnosis: &Diagnosis) -> bool {
    let any = |state| diagnosis.checked.iter().any(|entry| entry.state == state);
    !diagnosis.findings.is_empty() || any(CheckState::InOrder) || !any(CheckState::NotChecked)
}

/// A log is one question, and its answer is the reasons.
fn extent(args: &Args) -> ReportExtent {
    let short = if args.log.is_some() { ReportExtent::Page } else { ReportExtent::Screen };
    if args.verbose { ReportExtent::Whole } else { short }
}

/// The report on a captured folder.
fn examined(folder: &Path, selection: &RuleSelection) -> Result<DoctorReport, CliError> {
    let tree = captured(folder)?;
    Ok(DoctorReport::with_rules(inspect::read(&tree), None, selection).with_origin(Origin {
        root: Some(folder.display().to_string()),
        captured_unix_s: tree.captured_unix_s(),
        ..now()
    }))
}

/// This program, now.
fn now() -> Origin {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    Origin {
        examined_unix_s: since.map_or(0, |since| since.as_secs()),
        program_version: env!("CARGO_PKG_VERSION").to_owned(),
        ..Origin::default()
    }
}

/// The figures, and the clock beside references: these last, at the time of the report.
fn measured(args: &Args) -> Option<Measurements> {
    if args.no_measure && args.ntp.is_empty() {
        return None;
    }
    let mut measured = Measurements::default();
    if !args.no_measure {
        let progress = TerminalProgress::new(MEASURING);
        measured = measure::quick(MEASURING, &|what| progress.doing(what));
    }
    measured.references = measure::compare_references(&args.ntp);
    Some(measured)
}

fn server_name(name: &str) -> Result<String, String> {
    NtpPeer::check_name(name).map(|()| name.to_owned())
}

fn exit_code(diagnosis: &Diagnosis, fail_on: Option<Severity>) -> ExitCode {
    // Worst first.
    let worst = diagnosis.findings.first().map(|worst| worst.severity);
    if fail_on.is_some_and(|limit| worst >= Some(limit)) {
        ExitCode::from(FOUND)
    } else {
        ExitCode::SUCCESS
    }
}

/// Prints the verdict in one line, or why there is none: to a monitoring plugin's reader that is
/// no error of the clock.
fn print_quiet(report: Result<DoctorReport, CliError>) -> Result<ExitCode, CliError> {
    let ((state, code), why) = match report {
        Ok(report) => (state(&report.diagnosis), report.diagnosis.verdict),
        Err(why) => (UNKNOWN, why.to_string()),
    };
    output::text(&format!("{state} - {}\n", output::printable(&why)))?;
    Ok(ExitCode::from(code))
}

/// A state that is neither good nor bad.
const UNKNOWN: (&str, u8) = ("UNKNOWN", 3);

/// What Nagios and its kin expect of a plugin: word and exit code.
fn state(diagnosis: &Diagnosis) -> (&'static str, u8) {
    let worst = diagnosis.findings.first().map(|finding| finding.severity);
    match (worst, diagnosis.time.state) {
        (Some(Severity::Error), _) | (_, TimeState::Wrong) => ("CRITICAL", 2),
        (Some(Severity::Warning), _) => ("WARNING", 1),
        (_, TimeState::Right) if is_judged(diagnosis) => ("OK", 0),
        (_, TimeState::Right | TimeState::NotKnown) => UNKNOWN,
    }
}

/// The list of rules.
fn text() -> String {
    let mut text = String::new();
    for rule in RULES.iter() {
        let _ = writeln!(text, "{}", rule.name);
        for paragraph in [rule.checks, rule.source] {
            for line in wrap(paragraph, width() - 4).lines() {
                let _ = writeln!(text, "    {line}");
            }
        }
        text.push('\n');
    }
    text
}

/// The report on a log.
fn examined_log(file: &Path, selection: &RuleSelection) -> Result<DoctorReport, CliError> {
    let pasted = if file == Path::new("-") {
        read(io::stdin().lock())
    } else {
        File::open(file).and_then(read)
    };
    let failed = |why: &str| CliError::Failed {
        cause: format!("cannot read {}: {why}", file.display()),
        remedy: "name a readable log, or run `sudo dmesg | parachron doctor --log -`".into(),
    };
    let pasted = pasted.map_err(|why| failed(&why.to_string()))?;
    if pasted.lines == 0 {
        return Err(failed(pasted.stopped.unwrap_or("it has no line of text")));
    }
    let report = doctor::log::examine(pasted, selection);
    Ok(report.with_origin(Origin { root: Some(file.display().to_string()), ..now() }))
}

/// A gigabyte takes as much memory as its lines about clocks.
fn read(mut input: impl Read) -> io::Result<Pasted> {
    let (mut log, mut buffer) = (PastedLog::default(), vec![0; 1 << 16]);
    loop {
        match input.read(&mut buffer) {
            Ok(0) => return Ok(log.finish()),
            Ok(length) => {
                log.push(&buffer[..length]);
                if log.is_full() {
                    return Ok(log.finish());
                }
            }
            Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
            Err(why) => return Err(why),
        }
    }
}

#[cfg(test)]
mod tests;
