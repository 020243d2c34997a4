//! `drift` once, where a hundred runs are another row's: on a machine of one CPU, whose RTC
//! keeps it busy, or one whose clocks a daemon steers. What a daemon steers has no true rate
//! of its own, so only the clock that none can steer is compared there.

use crate::checks::Checks;
use crate::machine::Machine;
use crate::outcome::Result;

use super::Place;
use super::drift;

/// All that counts by the clock source, where nobody steers.
pub(super) const FREE: &[&str] = &["raw", "monotonic", "realtime"];

/// Where a daemon steers (adjtimex(2): `ADJ_FREQUENCY`, `ADJ_TICK` and slews change
/// CLOCK_REALTIME and CLOCK_MONOTONIC, and CLOCK_MONOTONIC_RAW never).
pub(super) const STEERED: &[&str] = &["raw"];

pub(super) fn run(
    place: &Place<'_>,
    machine: &mut Machine,
    clocks: &[&'static str],
    checks: &mut Checks,
) -> Result {
    let (_servers, references) = drift::references(place, machine)?;
    drift::against(place, machine, (&references, clocks), checks)
}
