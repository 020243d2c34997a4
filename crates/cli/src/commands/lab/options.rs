//! The options. Each experiment takes those that apply to it; `parachron lab`
//! alone takes all of them.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use guest::layout::VCPUS_MAX;
use guest::source::Source;
use host::{GuestSystem, Kind};
use lab::{Experiment, Session, Settings};
use pvclock::Hertz;

use super::format::Format;
use crate::duration;

/// Which clocks.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct Clocks {
    /// Test only guests of this provider; may be repeated
    #[arg(long, value_name = "NAME", value_parser = providers())]
    provider: Vec<Kind>,

    /// Test only this clock of the guest; may be repeated
    #[arg(long, value_name = "NAME", value_parser = sources())]
    source: Vec<Source>,
}

/// The TSC frequency in drift and offset.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct AdvertisedTsc {
    /// Advertise this TSC frequency to the guest (drift, offset)
    #[arg(long, value_name = "HZ", value_parser = hertz, conflicts_with = "tsc_factor")]
    tsc_hz: Option<u64>,

    /// Advertise this multiple of the true TSC frequency, such as 1.02299 (drift, offset)
    #[arg(long, value_name = "FACTOR", value_parser = factor)]
    tsc_factor: Option<f64>,
}

/// How many vCPUs.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct Vcpus {
    /// Number of the guest's vCPUs
    #[arg(long, value_name = "N", default_value_t = 2,
          value_parser = clap::value_parser!(u16).range(1..=VCPUS_MAX as i64))]
    vcpus: u16,
}

/// Where.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct Place {
    /// Run host and guest code in this process, without /dev/kvm
    #[arg(long)]
    in_process: bool,
}

/// As a picture too.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct Plot {
    /// Also draw the result as SVG to this file
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
}

/// How to run, and where the result goes.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct Run {
    /// How long to wait for each reply of the guest
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration::parse)]
    pub(super) timeout: Duration,

    /// Format of the result
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(super) format: Format,

    /// Write the result to this file instead of standard output
    #[arg(long, value_name = "FILE")]
    pub(super) output: Option<PathBuf>,
}

/// `parachron lab` alone.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct All {
    /// Run only this experiment; may be repeated
    #[arg(long, value_name = "NAME", value_parser = experiments())]
    only: Vec<Experiment>,
    #[command(flatten)]
    clocks: Clocks,
    #[command(flatten)]
    tsc: AdvertisedTsc,
    #[command(flatten)]
    vcpus: Vcpus,

    /// How long to measure drift and agreement, each
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration::parse)]
    duration: Duration,

    /// Time between save and restore (restore)
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = duration::parse)]
    downtime: Duration,

    /// Reads of all vCPUs together (monotonic)
    #[arg(long, value_name = "N", default_value_t = 10_000_000,
          value_parser = clap::value_parser!(u64).range(1..))]
    reads: u64,
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    plot: Plot,
    #[command(flatten)]
    run: Run,
}

impl All {
    pub(super) fn plan(&self) -> Plan {
        Plan::new(Experiment::chosen(&self.only, self.place.in_process), &self.run)
            .drawn(&self.plot)
            .at(&self.place)
            .clocks(&self.clocks)
            .advertised(&self.tsc)
            .vcpus(&self.vcpus)
            .with(|settings| {
                settings.drift = self.duration;
                settings.downtime = self.downtime;
                settings.monotonic_reads = self.reads;
            })
    }
}

#[derive(Debug, Clone, clap::Args)]
pub(super) struct Drift {
    #[command(flatten)]
    clocks: Clocks,
    #[command(flatten)]
    tsc: AdvertisedTsc,

    /// How long to compare the clocks
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration::parse)]
    duration: Duration,
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    plot: Plot,
    #[command(flatten)]
    run: Run,
}

impl Drift {
    pub(super) fn plan(&self) -> Plan {
        Plan::of(Experiment::Drift, &self.run)
            .drawn(&self.plot)
            .at(&self.place)
            .clocks(&self.clocks)
            .advertised(&self.tsc)
            .with(|settings| settings.drift = self.duration)
    }
}

#[derive(Debug, Clone, clap::Args)]
pub(super) struct Updates {
    #[command(flatten)]
    vcpus: Vcpus,
    #[command(flatten)]
    run: Run,
}

impl Updates {
    pub(super) fn plan(&self) -> Plan {
        Plan::of(Experiment::Updates, &self.run).vcpus(&self.vcpus)
    }
}

#[derive(Debug, Clone, clap::Args)]
pub(super) struct Cost {
    #[command(flatten)]
    clocks: Clocks,
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    plot: Plot,
    #[command(flatten)]
    run: Run,
}

impl Cost {
    pub(super) fn plan(&self) -> Plan {
        Plan::of(Experiment::Cost, &self.run).drawn(&self.plot).at(&self.place).clocks(&self.clocks)
    }
}

#[derive(Debug, Clone, clap::Args)]
pub(super) struct Monotonic {
    #[command(flatten)]
    vcpus: Vcpus,

    /// Reads of all vCPUs together
    #[arg(long, value_name = "N", default_value_t = 10_000_000,
          value_parser = clap::value_parser!(u64).range(1..))]
    reads: u64,
    #[command(flatten)]
    run: Run,
}

impl Monotonic {
    pub(super) fn plan(&self) -> Plan {
        Plan::of(Experiment::Monotonic, &self.run)
            .vcpus(&self.vcpus)
            .with(|settings| settings.monotonic_reads = self.reads)
    }
}

#[derive(Debug, Clone, clap::Args)]
pub(super) struct Offset {
    #[command(flatten)]
    clocks: Clocks,
    #[command(flatten)]
    tsc: AdvertisedTsc,
    #[command(flatten)]
    run: Run,
}

impl Offset {
    pub(super) fn plan(&self) -> Plan {
        Plan::of(Experiment::Offset, &self.run).clocks(&self.clocks).advertised(&self.tsc)
    }
}

#[derive(Debug, Clone, clap::Args)]
pub(super) struct Restore {
    /// Time between save and restore
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = duration::parse)]
    downtime: Duration,
    #[command(flatten)]
    plot: Plot,
    #[command(flatten)]
    run: Run,
}

impl Restore {
    pub(super) fn plan(&self) -> Plan {
        Plan::of(Experiment::Restore, &self.run)
            .drawn(&self.plot)
            .with(|settings| settings.downtime = self.downtime)
    }
}

#[derive(Debug, Clone, clap::Args)]
pub(super) struct Agreement {
    /// How long to compare the pages
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration::parse)]
    duration: Duration,
    #[command(flatten)]
    run: Run,
}

impl Agreement {
    pub(super) fn plan(&self) -> Plan {
        Plan::of(Experiment::Agreement, &self.run).with(|settings| settings.drift = self.duration)
    }
}

#[derive(Debug, Clone, clap::Args)]
pub(super) struct Conformance {
    #[command(flatten)]
    vcpus: Vcpus,
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    run: Run,
}

impl Conformance {
    pub(super) fn plan(&self) -> Plan {
        Plan::of(Experiment::Conformance, &self.run).at(&self.place).vcpus(&self.vcpus)
    }
}

/// What to run, and where the result goes.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    pub(super) session: Session,
    pub(super) run: Run,
    /// The file of the plot.
    pub(super) plot: Option<PathBuf>,
}

impl Plan {
    fn new(experiments: Vec<Experiment>, run: &Run) -> Self {
        let settings = Settings { timeout: run.timeout, ..Settings::default() };
        let session = Session { experiments, settings, advertised_tsc: None, in_process: false };
        Self { session, run: run.clone(), plot: None }
    }

    fn of(experiment: Experiment, run: &Run) -> Self {
        Self::new(vec![experiment], run)
    }

    fn with(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(&mut self.session.settings);
        self
    }

    fn at(mut self, place: &Place) -> Self {
        self.session.in_process = place.in_process;
        self
    }

    fn drawn(self, plot: &Plot) -> Self {
        Self { plot: plot.plot.clone(), ..self }
    }

    fn clocks(self, clocks: &Clocks) -> Self {
        self.with(|settings| {
            if !clocks.provider.is_empty() {
                settings.providers.clone_from(&clocks.provider);
            }
            settings.sources.clone_from(&clocks.source);
        })
    }

    fn advertised(mut self, tsc: &AdvertisedTsc) -> Self {
        self.session.advertised_tsc = tsc.tsc_hz.map(Hertz);
        self.with(|settings| settings.advertised_over_true = tsc.tsc_factor.unwrap_or(1.0))
    }

    fn vcpus(self, vcpus: &Vcpus) -> Self {
        self.with(|settings| settings.vcpus = vcpus.vcpus.into())
    }
}

fn experiments() -> impl TypedValueParser<Value = Experiment> {
    named(Experiment::ALL.map(|one| (one.name(), one)))
}

fn providers() -> impl TypedValueParser<Value = Kind> {
    let [none, legacy, minimal, kvm, hyperv] = Kind::ALL.map(|kind| (kind.name(), kind));
    // Our guest reads the same clocks as Linux.
    let default = ("default", Kind::default_for(GuestSystem::Linux));
    named([none, legacy, minimal, kvm, hyperv, default])
}

fn sources() -> impl TypedValueParser<Value = Source> {
    named(Source::ALL.map(|source| (source.name(), source)))
}

/// A value by its name in `table`.
fn named<T, const N: usize>(table: [(&'static str, T); N]) -> impl TypedValueParser<Value = T>
where
    T: Copy + Send + Sync + 'static,
{
    PossibleValuesParser::new(table.map(|(name, _)| name)).try_map(move |given| {
        let found = table.iter().find(|(name, _)| *name == given);
        found.map(|(_, value)| *value).ok_or("not in the list")
    })
}

/// A frequency: `3478274491`, `3_478_274_491`.
fn hertz(text: &str) -> Result<u64, String> {
    let digits = text.replace(['_', ','], "");
    digits
        .parse()
        .ok()
        .filter(|hz| *hz > 0)
        .ok_or_else(|| format!("expected a frequency in Hz such as 3478274491, found {text:?}"))
}

fn factor(text: &str) -> Result<f64, String> {
    let parsed = text.parse::<f64>().ok().filter(|factor| (0.001..=1000.0).contains(factor));
    parsed.ok_or_else(|| format!("expected a factor from 0.001 to 1000, found {text:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frequency_may_have_separators() {
        for text in ["3478274491", "3_478_274_491", "3,478,274,491"] {
            assert_eq!(hertz(text), Ok(3_478_274_491));
        }
        for text in ["", "0", "3.4GHz", "-1", "99999999999999999999"] {
            assert!(hertz(text).unwrap_err().contains(&format!("{text:?}")));
        }
    }

    #[test]
    fn a_factor_must_be_possible_for_a_clock() {
        assert_eq!(factor("1.02299"), Ok(1.02299));
        for text in ["0", "-1", "NaN", "inf", "1e9", "two"] {
            assert!(factor(text).unwrap_err().contains(&format!("{text:?}")));
        }
    }
}
