//! Drift on simulated time: what is left of it is arithmetic, exact but for
//! the clocks' own steps.

use guest::request::Request;
use guest::source::Source;
use host::Kind;
use instruments::rate::Pair;
use pvclock::Nanos;
use vmm::MachineError;

use super::board::Board;
use super::guest_code::GuestCode;
use super::time::Simulated;
use crate::bench::{Bench, Maker};
use crate::drift::{Series, judge};
use crate::results::Findings;
use crate::run::Found;
use crate::sample::sources;
use crate::settings::{LabError, Progress};

/// Readings that are kept, but for the first.
const READINGS: u64 = 20;
/// And of the RTC, each of which is polled for.
const EDGES: u64 = 2;
/// Counters that go round are looked at this often: the PIT does in 54.9 ms,
/// and in a fraction of that by a TSC that is told wrong.
const LOOKS_APART: Nanos = Nanos(20_000_000);

pub(super) fn run(bench: &Bench<'_>, progress: &mut dyn Progress) -> Result<Found, LabError> {
    let (mut rows, mut checks) = (Vec::new(), Vec::new());
    let told = bench.settings.told(bench.host_tsc).0 as f64 / bench.host_tsc.0 as f64;
    for (index, &kind) in bench.settings.providers.iter().enumerate() {
        progress.step(kind.name(), index as f64 / bench.settings.providers.len() as f64);
        let board = Board::new(bench.provider(kind), Simulated::new(bench.host_tsc))?;
        let found = GuestCode::start(&board).discover()?;
        for source in sources(bench.settings, &found) {
            let series = watch(bench, kind, source)?;
            let (row, check) = judge(Maker::Own(kind), &found, &series, told);
            rows.extend(row);
            checks.push(check);
        }
    }
    Ok((Findings::Drift(rows), checks))
}

/// One clock of a guest of its own: time passes as it is read, and another
/// clock would go round meanwhile.
fn watch(bench: &Bench<'_>, kind: Kind, source: Source) -> Result<Series, MachineError> {
    let board = Board::new(bench.provider(kind), Simulated::new(bench.host_tsc))?;
    let mut guest = GuestCode::start(&board);
    let mut series = Series { source, readings: Vec::new(), error: None };
    let duration = bench.settings.drift.as_nanos() as u64;
    let readings = if source == Source::Rtc { EDGES } else { READINGS };
    let apart = duration / readings;
    let looks = if source == Source::Pit { apart.div_ceil(LOOKS_APART.0).max(1) } else { 1 };
    for reading in 0..=readings {
        match guest.ask(Request::Read(source)) {
            Ok([before, guest_ns, after, ..]) => series.readings.push(Pair {
                before_ns: board.time.boot(before).0,
                tsc: guest_ns,
                after_ns: board.time.boot(after).0,
            }),
            Err(error) => {
                series.error = Some(error);
                break;
            }
        }
        for _ in 0..looks {
            if reading < readings {
                board.time.pass(Nanos(apart / looks));
                if looks > 1 {
                    guest.ask(Request::Read(source))?;
                }
            }
        }
    }
    Ok(series)
}
