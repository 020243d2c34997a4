//! `--log`: a log alone, from a file or standard input.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use doctor::report::{DoctorReport, Origin};
use doctor::selection::RuleSelection;
use facts::kernel::LogEvent;
use facts::kernel::pasted::{Pasted, PastedLog};
use facts::{Fact, Facts};
use inspect::tree::Tree;

use super::now;
use crate::error::CliError;

/// The rules that a log alone can answer.
const OF_LOGS: [&str; 8] = [
    "tsc-marked-unstable",
    "watchdog-late",
    "kvm-host-clock",
    "daemon-steps",
    "tsc-frequency",
    "stalls",
    "pauses-seen",
    "tsc-firmware",
];

/// The report on a log.
pub(super) fn examined(file: &Path, selection: &RuleSelection) -> Result<DoctorReport, CliError> {
    let failed = |why: io::Error| CliError::Failed {
        cause: format!("cannot read {}: {why}", file.display()),
        remedy: "name a readable file, or - for standard input".into(),
    };
    let pasted = if file == Path::new("-") {
        read(io::stdin().lock())
    } else {
        File::open(file).and_then(read)
    };
    let pasted = pasted.map_err(failed)?;
    let note = limits(&pasted);
    let facts = facts_of(pasted).map_err(failed)?;
    let mut selection = selection.clone();
    if selection.only.is_empty() {
        selection.only = OF_LOGS.map(str::to_owned).into();
    }
    let mut report = DoctorReport::with_rules(facts, None, &selection)
        .with_origin(Origin { root: Some(file.display().to_string()), ..now() });
    report.diagnosis.verdict = format!("{} {note}", report.diagnosis.verdict);
    Ok(report)
}

/// A gigabyte takes as much memory as its lines about clocks.
fn read(mut input: impl Read) -> io::Result<Pasted> {
    let (mut log, mut buffer) = (PastedLog::default(), vec![0; 1 << 16]);
    loop {
        match input.read(&mut buffer) {
            Ok(0) => return Ok(log.finish()),
            Ok(length) => log.push(&buffer[..length]),
            Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
            Err(why) => return Err(why),
        }
    }
}

/// What a log does not show, in one line.
fn limits(pasted: &Pasted) -> String {
    let boots = if pasted.is_several_boots {
        " Lines of another boot or machine were left out."
    } else {
        ""
    };
    let found = match pasted.log.len() {
        0 => format!("None of {} lines is about clocks.", pasted.lines),
        _ => String::new(),
    };
    let unknown = "A log alone does not show the present clock source, the time daemon's state or \
                   any measurement: run parachron doctor on the machine.";
    [found.as_str(), boots.trim(), unknown].join(" ").trim().to_owned()
}

/// What the log shows of the machine; all else is unknown.
fn facts_of(pasted: Pasted) -> io::Result<Facts> {
    let mut facts = inspect::read(&Tree::empty()?);
    let switched = pasted.log.iter().rev().find_map(|line| match &line.event {
        LogEvent::Switched { to } => Some(to.clone()),
        _ => None,
    });
    if let Some(current) = switched {
        facts.clocksources.current = Fact::Known(current);
    }
    if let Some(release) = pasted.release {
        facts.kernel.release = Fact::Known(release);
    }
    facts.kernel.log = Fact::Known(pasted.log);
    Ok(facts)
}
