//! A machine whose clocks are sampled.

use guest::discovery::Discovery;
use guest::request::GuestRequest;
use guest::source::Source;
use instruments::rate::ReadingPair;
use pvclock::{Hertz, Nanos};
use vmm::{Machine, MachineError};

use crate::bench::{LabBench, Provider};
use crate::sample::{TRIES, VCPU, of_edge, sources, tightest, width_ns};

/// Two edges this tight suffice: 200 ppm of 5 s are 1 ms.
const TIGHT_NS: u64 = 500_000;

/// One clock's readings.
#[derive(Debug)]
pub(crate) struct SubjectSeries {
    pub(crate) source: Source,
    pub(crate) readings: Vec<ReadingPair>,
    /// Why there are no more, or fewer than planned.
    pub(crate) error: Option<MachineError>,
}

/// A machine and its readings.
pub(super) struct DriftSubject {
    pub(super) provider: Provider,
    pub(super) found: Discovery,
    pub(super) series: Vec<SubjectSeries>,
    machine: Machine,
    tsc_offset: u64,
    rate: Hertz,
}

impl DriftSubject {
    pub(super) fn start(bench: &LabBench<'_>, provider: Provider) -> Result<Self, MachineError> {
        let machine = bench.start(provider, 1)?;
        let found = machine.discover(VCPU)?;
        let tsc_offset = machine.tsc_offset(VCPU)?;
        let series = sources(bench.settings, &found)
            .into_iter()
            .map(|source| SubjectSeries { source, readings: Vec::new(), error: None })
            .collect();
        Ok(Self { provider, found, series, machine, tsc_offset, rate: bench.host_tsc })
    }

    /// How long its vCPU has waited for a CPU, where the host's kernel counts that.
    pub(super) fn waited(&self) -> Option<Nanos> {
        self.machine.run_delay(VCPU).ok().flatten()
    }

    /// Reads all clocks that can be read at any time.
    pub(super) fn sample(&mut self) {
        for series in &mut self.series {
            if series.source != Source::Rtc {
                series.read(&self.machine);
            }
        }
    }

    /// Whether its RTC is among the sources and replies.
    pub(super) fn has_edges(&self) -> bool {
        self.series.iter().any(SubjectSeries::waits_for_edge)
    }

    /// How many of its RTC's edges were read undisturbed, and how many in total.
    pub(super) fn edges_seen(&self) -> (usize, usize) {
        let edges = self.series.iter().filter(|series| series.waits_for_edge());
        let readings = || edges.clone().flat_map(|series| &series.readings);
        let tight = readings().filter(|reading| width_ns(**reading) <= TIGHT_NS);
        (tight.count(), readings().count())
    }

    /// Has the guest poll for its RTC's next second.
    pub(super) fn poll_edge(&self) {
        // `take_edge` reports a guest that still polls or is dead.
        let _ = self.machine.send_request(VCPU, GuestRequest::Read(Source::Rtc));
    }

    /// Waits for the reading of the edge.
    pub(super) fn take_edge(&mut self) {
        let reply = self.machine.wait_for_reply(VCPU, GuestRequest::Read(Source::Rtc));
        let reading = reply.map(|reply| of_edge(&reply, self.tsc_offset, self.rate));
        if let Some(series) = self.series.iter_mut().find(|series| series.waits_for_edge()) {
            series.take(reading);
        }
    }
}

impl SubjectSeries {
    fn read(&mut self, machine: &Machine) {
        // Wait only once for a guest that is dead or does not reply.
        if self.error.is_none() {
            self.take(tightest(machine, self.source, TRIES));
        }
    }

    fn take(&mut self, reading: Result<ReadingPair, MachineError>) {
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
}
