//! The cost of reading a clock inside the guest, against a bare RDTSC there.

use guest::request::GuestRequest;
use guest::source::Source;
use instruments::distribution::Distribution;
use instruments::measurements::Spread;
use pvclock::Hertz;
use serde::Serialize;
use vmm::{Machine, MachineError};

use crate::bench::{CLOCK_BY, LabBench, Provider};
use crate::results::{Check, ColumnForm, ExperimentResult, ResultTable};
use crate::sample::{VCPU, not_read, providers, sources};
use crate::settings::{LabError, LabProgress};

/// The most that a reading of a page may cost, in bare RDTSCs.
const PAGE_RATIO: f64 = 1.35;

/// Rounds of one request; the ring between guest and host holds 512.
pub(crate) const BATCH: u64 = 100;

/// How often a clock is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Effort {
    /// Readings a round.
    pub(crate) reads: u64,
    pub(crate) rounds: u64,
}

/// About 10 ms for a clock that is read without an exit; if every reading is an
/// exit of 30 to 100 µs, 20 of them hide the cost of the loop.
pub(crate) const fn effort(source: Source) -> Option<Effort> {
    match source {
        Source::Tsc | Source::KvmClock | Source::HyperVPage => {
            Some(Effort { reads: 1000, rounds: 400 })
        }
        Source::HyperVCounter | Source::AcpiPm | Source::Hpet => {
            Some(Effort { reads: 20, rounds: 25 })
        }
        // Reading it takes up to a second: it waits for the next one.
        Source::Rtc => None,
    }
}

/// The cost of one clock in the guest.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct CostRow {
    clock_by: &'static str,
    source: &'static str,
    /// Of a reading, over rounds.
    cycles: Spread,
    least_ns: f64,
    /// A bare RDTSC in the same rounds.
    rdtsc_cycles: Spread,
    /// Least of the clock over least of RDTSC.
    ratio: f64,
    /// Readings a round.
    reads: u64,
    rounds: u64,
}

fn table(rows: &[CostRow]) -> ResultTable {
    use ColumnForm::{Name, Nanos, Significant};
    let columns = [
        ("clock_by", "clock by", "", Name),
        ("source", "guest's clock", "", Name),
        ("cycles.min", "least", "cycles", Significant),
        ("cycles.median", "median", "cycles", Significant),
        ("cycles.p99", "p99", "cycles", Significant),
        ("least_ns", "a reading", "", Nanos),
        ("rdtsc_cycles.min", "RDTSC", "cycles", Significant),
        ("ratio", "ratio", "", Significant),
    ];
    ResultTable::new("Cost of a reading inside the guest", &columns, rows)
        .worst("least_ns")
        .note(CLOCK_BY)
        .note(
            "Each round of readings follows a round of as many bare RDTSC. ratio: least of the \
             clock divided by least of RDTSC.",
        )
}

const READABLE: &str = "readable";

pub(crate) fn run(
    bench: &LabBench<'_>,
    progress: &mut dyn LabProgress,
) -> Result<ExperimentResult, LabError> {
    let mut rows = Vec::new();
    let mut checks = Vec::new();
    let providers = providers(bench.settings);
    for (index, provider) in providers.iter().enumerate() {
        let mut step = |what: &str, done| {
            progress.step(what, (index as f64 + done) / providers.len() as f64);
        };
        if let Err(error) = of_provider(bench, *provider, &mut rows, &mut checks, &mut step) {
            checks.push(not_read(provider.label().to_owned(), READABLE.to_owned(), &error));
        }
    }
    let pages = [Source::KvmClock, Source::HyperVPage].map(Source::name);
    checks.extend(rows.iter().filter(|row| pages.contains(&row.source)).map(CostRow::check));
    Ok((table(&rows), checks))
}

/// Every clock of one machine.
fn of_provider(
    bench: &LabBench<'_>,
    provider: Provider,
    rows: &mut Vec<CostRow>,
    checks: &mut Vec<Check>,
    step: &mut dyn FnMut(&str, f64),
) -> Result<(), MachineError> {
    let machine = bench.start(provider, 1)?;
    let sources = sources(bench.settings, &machine.discover(VCPU)?);
    for (place, source) in sources.iter().enumerate() {
        let Some(effort) = effort(*source) else { continue };
        let name = format!("{}: {}", provider.label(), source.name());
        step(&name, place as f64 / sources.len() as f64);
        match measure(&machine, *source, effort) {
            Ok(rounds) => {
                rows.extend(cost_of(provider, *source, effort, &rounds, bench.host_tsc));
            }
            Err(error) => checks.push(not_read(name, READABLE.to_owned(), &error)),
        }
    }
    Ok(())
}

/// Cycles of each round: of bare RDTSC, and of the clock.
fn measure(
    machine: &Machine,
    source: Source,
    effort: Effort,
) -> Result<Vec<(u64, u64)>, MachineError> {
    let mut rounds = Vec::new();
    let mut left = effort.rounds;
    while left > 0 {
        let batch = left.min(BATCH);
        machine.request(VCPU, GuestRequest::Cost { source, reads: effort.reads, rounds: batch })?;
        rounds.extend(machine.records(VCPU)?.iter().map(|[_, bare, cycles, ..]| (*bare, *cycles)));
        left -= batch;
    }
    Ok(rounds)
}

/// A row of these rounds; nothing of no rounds, which a faulty guest may send.
fn cost_of(
    provider: Provider,
    source: Source,
    effort: Effort,
    rounds: &[(u64, u64)],
    host_tsc: Hertz,
) -> Option<CostRow> {
    let (mut bare, mut this) = (Distribution::new(), Distribution::new());
    for (bare_cycles, cycles) in rounds {
        bare.record(*bare_cycles as f64 / effort.reads as f64);
        this.record(*cycles as f64 / effort.reads as f64);
    }
    let (cycles, rdtsc_cycles) = (this.spread()?, bare.spread()?);
    Some(CostRow {
        clock_by: provider.label(),
        source: source.name(),
        cycles,
        least_ns: cycles.min * 1e9 / host_tsc.0 as f64,
        rdtsc_cycles,
        ratio: cycles.min / rdtsc_cycles.min,
        reads: effort.reads,
        rounds: rounds.len() as u64,
    })
}

impl CostRow {
    /// Whether a reading of a page is cheap enough.
    fn check(&self) -> Check {
        Check::new(
            format!("{}: {} against bare RDTSC in the guest", self.clock_by, self.source),
            format!("at most {PAGE_RATIO}"),
            format!("{:.3} over {} rounds of {} readings", self.ratio, self.rounds, self.reads),
            self.ratio <= PAGE_RATIO,
        )
    }
}

#[cfg(test)]
mod tests {
    use host::ClockProvider;

    use super::*;
    use crate::results::Verdict;

    #[test]
    fn a_row_has_the_cost_of_one_reading_and_its_minimum() {
        let effort = Effort { reads: 10, rounds: 3 };
        let rounds = [(250, 300), (260, 310), (900, 9000)];
        let provider = Provider::Own(ClockProvider::Kvm);
        let row =
            cost_of(provider, Source::KvmClock, effort, &rounds, Hertz(2_000_000_000)).unwrap();
        assert_eq!((row.cycles.min, row.cycles.max, row.rdtsc_cycles.min), (30.0, 900.0, 25.0));
        assert_eq!((row.least_ns, row.ratio, row.rounds), (15.0, 1.2, 3));
        let check = row.check();
        assert_eq!((check.verdict, check.expected.as_str()), (Verdict::Passed, "at most 1.35"));
        let costly = CostRow { ratio: 1.36, ..row };
        assert_eq!(costly.check().verdict, Verdict::Failed);
    }

    #[test]
    fn no_rounds_make_no_row() {
        let effort = Effort { reads: 10, rounds: 3 };
        assert_eq!(cost_of(Provider::Kernel, Source::Tsc, effort, &[], Hertz(1_000_000_000)), None);
    }
}
