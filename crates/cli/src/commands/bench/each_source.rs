//! `--each-source`: all available clocksources in turn; the first is restored.
//!
//! A guard process restores the first source when this process ends, however
//! it ends (`inspect::restore_guard`); so nothing here needs a signal
//! handler, and a failure half way is a plain `?`.
//!
//! The sources take turns in several rounds, so that the machine's other load
//! affects all of them alike.

use std::time::Duration;

use inspect::clocksource_switch::{SwitchError, Switchboard};
use inspect::measure::{MeasurementPlan, MeasuringSession};
use inspect::restore_guard::RestoreGuard;
use instruments::measurements::Measurements;

use super::measure_once;
use crate::commands::helpers::{self, Helper};
use crate::error::CliError;
use crate::output::TerminalProgress;
use crate::output::table::{width, wrap};

const CURRENT: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";

/// A switch stops all CPUs for a moment; its effects settle first.
const SETTLING: Duration = Duration::from_millis(20);

/// Turns of each source.
const ROUNDS: u32 = 4;

/// What would be done, for `--dry-run`.
pub(super) fn announce(plan: &MeasurementPlan) -> Result<String, CliError> {
    let board = Switchboard::live();
    let (first, sources) = sources(&board)?;
    if sources.len() == 1 {
        return Ok(format!("Would measure {first} only: it is the only clocksource.\n"));
    }
    let mut paragraphs = vec![
        format!(
            "Would measure under each clocksource for about {:.0} s, in {ROUNDS} turns each: {}.",
            plan.expected().as_secs_f64(),
            sources.join(", ")
        ),
        format!(
            "Would write each name to {CURRENT}, then {first} again; a guard process restores \
             {first} even if this process is killed."
        ),
        "During a turn every program reads the source under test: time stays right, but reads may \
         be slow."
            .into(),
    ];
    if let Err(error) = board.may_switch() {
        paragraphs.push(format!("Would fail: {error}."));
    }
    let lines = paragraphs.iter().map(|text| wrap(text, width()) + "\n");
    Ok(lines.collect())
}

/// Measures under each source.
pub(super) fn run(plan: &MeasurementPlan) -> Result<Vec<Measurements>, CliError> {
    let board = Switchboard::live();
    let (first, sources) = sources(&board)?;
    let count = u32::try_from(sources.len()).unwrap_or(u32::MAX);
    let progress = TerminalProgress::new(plan.expected() * count);
    if sources.len() == 1 {
        let mut run = measure_once(plan.clone(), &progress);
        let why = format!("{first} is the only one available");
        run.miss("other clocksources", why);
        return Ok(vec![run]);
    }
    board.may_switch().map_err(refused)?;
    let guard =
        RestoreGuard::start(helpers::command(&Helper::RestoreGuard { source: first.clone() }))
            .map_err(|error| CliError::Failed {
                cause: error.to_string(),
                remedy: "end the other `parachron bench` first; nothing was switched".into(),
            })?;
    let runs = in_turns(plan, &board, &sources, &progress);
    drop(progress);
    let restored = board.switch_to(&first);
    // The guard reads back, and writes again if needed: its result counts.
    guard.finish().map_err(|error| {
        let first_try = restored.err().map_or_else(String::new, |error| format!("{error}; "));
        not_restored(&board, &first, &format!("{first_try}{error}"))
    })?;
    runs
}

/// A source that the kernel has given up meanwhile is not to be had by another try: what its
/// watchdog calls unstable is no longer offered (`clocksource_unstable`,
/// kernel/time/clocksource.c).
fn not_restored(board: &Switchboard, first: &str, why: &str) -> CliError {
    let offered = board.available().is_ok_and(|all| all.iter().any(|one| one == first));
    if offered {
        return CliError::Failed {
            cause: format!("cannot restore clocksource {first}: {why}"),
            remedy: format!("run `echo {first} > {CURRENT}` as root"),
        };
    }
    CliError::Failed {
        cause: format!("the kernel dropped clocksource {first} while others were measured: {why}"),
        remedy: "run `dmesg` for its watchdog's reason, then `parachron doctor`".into(),
    }
}

/// Each source's run.
fn in_turns(
    plan: &MeasurementPlan,
    board: &Switchboard,
    sources: &[String],
    progress: &TerminalProgress,
) -> Result<Vec<Measurements>, CliError> {
    let mut sessions: Vec<_> =
        sources.iter().map(|_| MeasuringSession::new(plan.clone())).collect();
    for _ in 0..ROUNDS {
        for (source, session) in sources.iter().zip(&mut sessions) {
            turn(board, source, session, progress)?;
        }
    }
    let runs = sessions.into_iter().map(MeasuringSession::finish).zip(sources);
    Ok(runs
        .map(|(mut run, source)| {
            // A source that the kernel never accepted is not in the report yet.
            run.clocksource = Some(source.clone());
            run
        })
        .collect())
}

/// One turn of one source. A source that the kernel does not accept is listed
/// as not measured; a change half way is an error.
fn turn(
    board: &Switchboard,
    source: &str,
    session: &mut MeasuringSession,
    progress: &TerminalProgress,
) -> Result<(), CliError> {
    progress.doing(&format!("{source}: switching"));
    match board.switch_to(source) {
        Ok(()) => {}
        Err(error @ SwitchError::NotTaken { .. }) => {
            session.miss(format!("clocksource {source}"), error.to_string());
            return Ok(());
        }
        Err(error) => return Err(refused(error)),
    }
    std::thread::sleep(SETTLING);
    session.round(ROUNDS, &|what| progress.doing(&format!("{source}: {what}")));
    let found = board.current().map_err(refused)?;
    if found == source {
        return Ok(());
    }
    Err(CliError::Failed {
        cause: format!("the clocksource changed from {source} to {found} while it was measured"),
        remedy: "run `dmesg`: it shows whether the kernel's watchdog changed it".into(),
    })
}

/// The source in use, and all of them, that one first.
fn sources(board: &Switchboard) -> Result<(String, Vec<String>), CliError> {
    let first = board.current().map_err(refused)?;
    let mut sources = board.available().map_err(refused)?;
    sources.retain(|source| *source != first);
    sources.insert(0, first.clone());
    Ok((first, sources))
}

fn refused(error: SwitchError) -> CliError {
    let remedy = match &error {
        SwitchError::NotRoot { .. } => "run `sudo parachron bench --each-source`",
        SwitchError::ReadOnly { .. } => {
            "run it on the host, or remount /sys: `mount -o remount,rw /sys`"
        }
        SwitchError::Unknown(_) => "run `mount -t sysfs sysfs /sys`",
        SwitchError::Busy { .. } => "end the other `parachron bench` first",
        _ => "run `dmesg` for the kernel's reason",
    };
    CliError::Failed { cause: error.to_string(), remedy: remedy.into() }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_source_that_the_kernel_gave_up_is_not_to_be_tried_again() {
        let folder = tempfile::tempdir().unwrap();
        let remedy = |available: &str| {
            fs::write(folder.path().join("available_clocksource"), available).unwrap();
            let board = Switchboard::in_folder(folder.path());
            let CliError::Failed { cause, remedy } = not_restored(&board, "tsc", "still hpet")
            else {
                panic!("no failure");
            };
            assert!(cause.contains("tsc") && cause.ends_with(": still hpet"), "{cause}");
            remedy
        };
        assert!(remedy("tsc hpet acpi_pm \n").starts_with("run `echo tsc > /sys/"));
        assert!(remedy("hpet acpi_pm \n").starts_with("run `dmesg`"));
    }
}
