//! A machine whose clocks are read now and then.

use guest::discovery::Found;
use guest::request::{Outcome, Request};
use guest::source::Source;
use instruments::rate::Pair;
use pvclock::Hertz;
use vmm::{Machine, MachineError, kvm};

use crate::bench::{Bench, Maker};
use crate::sample::{VCPU, of_edge, sources, tightest, width_ns};

/// An edge that two of these may bound: 200 ppm of 5 s are 1 ms.
const TIGHT_NS: u64 = 500_000;

/// One clock's readings.
#[derive(Debug)]
pub(crate) struct Series {
    pub(crate) source: Source,
    pub(crate) readings: Vec<Pair>,
    /// Why there are no more, or fewer than wanted.
    pub(crate) error: Option<MachineError>,
}

/// A machine and what was read of it.
pub(super) struct Subject {
    pub(super) maker: Maker,
    pub(super) found: Found,
    pub(super) series: Vec<Series>,
    machine: Machine,
    tsc_offset: u64,
    rate: Hertz,
}

impl Subject {
    pub(super) fn start(bench: &Bench<'_>, maker: Maker) -> Result<Self, MachineError> {
        let machine = bench.start(maker, 1)?;
        let found = machine.discover(VCPU)?;
        let tsc_offset = machine.call_vcpu(VCPU, |fd| kvm::tsc_offset(fd))??;
        let series = sources(bench.settings, &found)
            .into_iter()
            .map(|source| Series { source, readings: Vec::new(), error: None })
            .collect();
        Ok(Self { maker, found, series, machine, tsc_offset, rate: bench.host_tsc })
    }

    /// Reads all clocks that can be read at any time.
    pub(super) fn look(&mut self) {
        for series in &mut self.series {
            if !matches!(series.source, Source::Pit | Source::Rtc) {
                series.read(&self.machine);
            }
        }
    }

    /// Reads the PIT, which is followed from then on until the turn ends. One
    /// that went round unseen begins anew: what is left of the turn may do.
    pub(super) fn look_at_pit(&mut self, ends: bool) {
        let Some(series) = self.series.iter_mut().find(|series| series.source == Source::Pit)
        else {
            return;
        };
        series.read(&self.machine);
        if series.went_round() && !ends {
            series.readings.clear();
            series.rest(&self.machine);
            series.read(&self.machine);
        }
        if ends {
            series.rest(&self.machine);
        }
    }

    /// Whether it has an RTC that is asked for, and answers.
    pub(super) fn has_edges(&self) -> bool {
        self.series.iter().any(Series::waits_for_edge)
    }

    /// How many of its RTC's edges were seen undisturbed, and how many at all.
    pub(super) fn edges_seen(&self) -> (usize, usize) {
        let edges = self.series.iter().filter(|series| series.waits_for_edge());
        let readings = || edges.clone().flat_map(|series| &series.readings);
        let tight = readings().filter(|reading| width_ns(**reading) <= TIGHT_NS);
        (tight.count(), readings().count())
    }

    /// Has the guest wait for its RTC's next second.
    pub(super) fn watch_edge(&self) {
        // One that still waits, or is dead, is told of when it is taken.
        let _ = self.machine.post(VCPU, Request::Read(Source::Rtc));
    }

    /// Takes what the guest saw, once it has.
    pub(super) fn take_edge(&mut self) {
        let answer = self.machine.answer(VCPU, Request::Read(Source::Rtc));
        let reading = answer.map(|answer| of_edge(&answer, self.tsc_offset, self.rate));
        if let Some(series) = self.series.iter_mut().find(|series| series.waits_for_edge()) {
            series.take(reading);
        }
    }
}

impl Series {
    fn read(&mut self, machine: &Machine) {
        // A guest that is dead or silent is not waited for again and again.
        if self.error.is_none() || self.went_round() {
            self.take(tightest(machine, self.source));
        }
    }

    fn take(&mut self, reading: Result<Pair, MachineError>) {
        match reading {
            Ok(reading) => {
                self.readings.push(reading);
                self.error = None;
            }
            Err(error) => self.error = Some(error),
        }
    }

    fn waits_for_edge(&self) -> bool {
        self.source == Source::Rtc && self.error.is_none()
    }

    fn went_round(&self) -> bool {
        matches!(self.error, Some(MachineError::Declined { outcome: Outcome::WentRound, .. }))
    }

    fn rest(&mut self, machine: &Machine) {
        if let Err(error) = machine.ask(VCPU, Request::Rest) {
            self.error = Some(error);
        }
    }
}
