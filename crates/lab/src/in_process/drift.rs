//! Drift on simulated time: exact, except for the clocks' own steps.

use guest::request::Request;
use guest::source::Source;
use host::Kind;
use instruments::rate::Pair;
use pvclock::Nanos;
use vmm::MachineError;

use super::guest_code::GuestCode;
use super::time::Simulated;
use super::vm::InProcessVm;
use crate::bench::{Bench, Provider};
use crate::drift::{Series, judge};
use crate::results::Findings;
use crate::run::Found;
use crate::sample::sources;
use crate::settings::{LabError, Progress};

/// Readings, the first not counted.
const READINGS: u64 = 20;
/// The same of the RTC: the guest polls for each.
const EDGES: u64 = 2;
/// How often counters that wrap are read: the PIT wraps in 54.9 ms, and in a
/// fraction of that by a wrongly advertised TSC.
const READ_EVERY: Nanos = Nanos(20_000_000);

pub(super) fn run(bench: &Bench<'_>, progress: &mut dyn Progress) -> Result<Found, LabError> {
    let (mut rows, mut checks) = (Vec::new(), Vec::new());
    let factor = bench.settings.advertised(bench.host_tsc).0 as f64 / bench.host_tsc.0 as f64;
    for (index, &kind) in bench.settings.providers.iter().enumerate() {
        progress.step(kind.name(), index as f64 / bench.settings.providers.len() as f64);
        let vm = InProcessVm::new(bench.host_settings(kind), Simulated::new(bench.host_tsc))?;
        let found = GuestCode::start(&vm).discover()?;
        for source in sources(bench.settings, &found) {
            let series = sample(bench, kind, source)?;
            let (row, check) = judge(Provider::Own(kind), &found, &series, factor, None);
            rows.extend(row);
            checks.push(check);
        }
    }
    Ok((Findings::Drift(rows), checks))
}

/// One clock of a guest of its own: time passes while it is read, in which
/// another clock would wrap.
fn sample(bench: &Bench<'_>, kind: Kind, source: Source) -> Result<Series, MachineError> {
    let vm = InProcessVm::new(bench.host_settings(kind), Simulated::new(bench.host_tsc))?;
    let mut guest = GuestCode::start(&vm);
    let mut series = Series { source, readings: Vec::new(), error: None };
    let duration = bench.settings.drift.as_nanos() as u64;
    let readings = if source == Source::Rtc { EDGES } else { READINGS };
    let interval = duration / readings;
    let reads = if source == Source::Pit { interval.div_ceil(READ_EVERY.0).max(1) } else { 1 };
    for reading in 0..=readings {
        match guest.request(Request::Read(source)) {
            Ok([before, guest_ns, after, ..]) => series.readings.push(Pair {
                before_ns: vm.time.boot(before).0,
                tsc: guest_ns,
                after_ns: vm.time.boot(after).0,
            }),
            Err(error) => {
                series.error = Some(error);
                break;
            }
        }
        for _ in 0..reads {
            if reading < readings {
                vm.time.pass(Nanos(interval / reads));
                if reads > 1 {
                    guest.request(Request::Read(source))?;
                }
            }
        }
    }
    Ok(series)
}
