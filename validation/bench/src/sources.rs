//! The same benchmark under each clocksource, by platform's own guard.

use std::process::Command;

use inspect::clocksource_switch::Switchboard;
use inspect::restore_guard::{self, RestoreGuard};

/// The hidden argument by which this program becomes the guard.
pub(crate) const GUARD: &str = "guard";

/// Runs `measure` under each available clocksource, the current one first;
/// it is restored in any case.
pub(crate) fn each(mut measure: impl FnMut(&str) -> Result<bool, String>) -> Result<bool, String> {
    let board = Switchboard::live();
    let available = board.available().map_err(|error| error.to_string())?;
    board.may_switch().map_err(|error| error.to_string())?;
    let first = board.current().map_err(|error| error.to_string())?;
    let mut program = Command::new(std::env::current_exe().map_err(|error| error.to_string())?);
    program.args([GUARD, &first]);
    let guard = RestoreGuard::start(program).map_err(|error| error.to_string())?;
    let mut met = measure(&first)?;
    for source in available.iter().filter(|source| **source != first) {
        println!();
        match board.switch_to(source) {
            Ok(()) => met &= measure(source)?,
            // The kernel lists sources that it then declines.
            Err(error) => println!("not measured: {error}"),
        }
    }
    board.switch_to(&first).map_err(|error| error.to_string())?;
    guard.finish().map_err(|error| error.to_string())?;
    Ok(met)
}

/// Runs the guard process.
pub(crate) fn stand_guard(source: &str) -> Result<bool, String> {
    restore_guard::restore_on_eof(&Switchboard::live(), source, std::io::stdin(), std::io::stdout())
        .map(|_| true)
        .map_err(|error| error.to_string())
}
