//! What can be asked of the experiments. Each takes the options that mean
//! something to it; `parachron lab` alone takes all of them.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use guest::layout::VCPUS_MAX;
use guest::source::Source;
use host::{GuestSystem, Kind};
use lab::{Experiment, Settings};

use super::format::Format;
use super::session::Order;
use crate::duration;

/// Which clocks.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct Clocks {
    /// Only guests of this provider; may be repeated
    #[arg(long, value_name = "NAME", value_parser = providers())]
    provider: Vec<Kind>,

    /// Only this clock of the guest; may be repeated
    #[arg(long, value_name = "NAME", value_parser = sources())]
    source: Vec<Source>,
}

/// What the guest is told of its TSC, where that is what is looked at: in
/// drift and offset.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct Told {
    /// Tell the guest that its TSC has this frequency (drift, offset)
    #[arg(long, value_name = "HZ", value_parser = hertz, conflicts_with = "tsc_factor")]
    tsc_hz: Option<u64>,

    /// Tell it so many times the true frequency, such as 1.02299 (drift, offset)
    #[arg(long, value_name = "FACTOR", value_parser = factor)]
    tsc_factor: Option<f64>,
}

/// How many vCPUs.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct Vcpus {
    /// How many vCPUs the guest has
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
    /// Also draw the result, as SVG
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
}

/// How it is run, and where the result goes.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct Run {
    /// How long to wait for each of the guest's answers
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration::parse)]
    pub(super) timeout: Duration,

    /// How to print the result
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(super) format: Format,

    /// Write the result to a file instead
    #[arg(long, value_name = "FILE")]
    pub(super) output: Option<PathBuf>,
}

/// `parachron lab` alone.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct All {
    /// Only this experiment; may be repeated
    #[arg(long, value_name = "NAME", value_parser = experiments())]
    only: Vec<Experiment>,
    #[command(flatten)]
    clocks: Clocks,
    #[command(flatten)]
    told: Told,
    #[command(flatten)]
    vcpus: Vcpus,

    /// How long drift and agreement are measured, each
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration::parse)]
    duration: Duration,

    /// How long a saved machine is left alone
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = duration::parse)]
    away: Duration,

    /// Reads that are put in order, of all vCPUs together
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
    /// The experiments asked for, in the lab's own order.
    pub(super) fn order(&self) -> Order<'_> {
        let mut experiments = Experiment::ALL.to_vec();
        experiments.retain(|one| match self.only.is_empty() {
            true => !self.place.in_process || lab::IN_PROCESS.contains(one),
            false => self.only.contains(one),
        });
        let tuning = Tuning::new(&self.run)
            .drawn(&self.plot)
            .at(&self.place)
            .clocks(&self.clocks)
            .told(&self.told)
            .vcpus(&self.vcpus)
            .with(|settings| {
                settings.drift = self.duration;
                settings.away = self.away;
                settings.monotonic_reads = self.reads;
            });
        Order { experiments, tuning, run: &self.run }
    }
}

#[derive(Debug, Clone, clap::Args)]
pub(super) struct Drift {
    #[command(flatten)]
    clocks: Clocks,
    #[command(flatten)]
    told: Told,

    /// How long to compare the clocks
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration::parse)]
    duration: Duration,
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    plot: Plot,
    #[command(flatten)]
    pub(super) run: Run,
}

impl Drift {
    pub(super) fn tuning(&self) -> Tuning {
        Tuning::new(&self.run)
            .drawn(&self.plot)
            .at(&self.place)
            .clocks(&self.clocks)
            .told(&self.told)
            .with(|settings| settings.drift = self.duration)
    }
}

#[derive(Debug, Clone, clap::Args)]
pub(super) struct Updates {
    #[command(flatten)]
    vcpus: Vcpus,
    #[command(flatten)]
    pub(super) run: Run,
}

impl Updates {
    pub(super) fn tuning(&self) -> Tuning {
        Tuning::new(&self.run).vcpus(&self.vcpus)
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
    pub(super) run: Run,
}

impl Cost {
    pub(super) fn tuning(&self) -> Tuning {
        Tuning::new(&self.run).drawn(&self.plot).at(&self.place).clocks(&self.clocks)
    }
}

#[derive(Debug, Clone, clap::Args)]
pub(super) struct Monotonic {
    #[command(flatten)]
    vcpus: Vcpus,

    /// Reads, of all vCPUs together
    #[arg(long, value_name = "N", default_value_t = 10_000_000,
          value_parser = clap::value_parser!(u64).range(1..))]
    reads: u64,
    #[command(flatten)]
    pub(super) run: Run,
}

impl Monotonic {
    pub(super) fn tuning(&self) -> Tuning {
        Tuning::new(&self.run)
            .vcpus(&self.vcpus)
            .with(|settings| settings.monotonic_reads = self.reads)
    }
}

#[derive(Debug, Clone, clap::Args)]
pub(super) struct Offset {
    #[command(flatten)]
    clocks: Clocks,
    #[command(flatten)]
    told: Told,
    #[command(flatten)]
    pub(super) run: Run,
}

impl Offset {
    pub(super) fn tuning(&self) -> Tuning {
        Tuning::new(&self.run).clocks(&self.clocks).told(&self.told)
    }
}

#[derive(Debug, Clone, clap::Args)]
pub(super) struct Restore {
    /// How long the saved machine is left alone
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = duration::parse)]
    away: Duration,
    #[command(flatten)]
    plot: Plot,
    #[command(flatten)]
    pub(super) run: Run,
}

impl Restore {
    pub(super) fn tuning(&self) -> Tuning {
        Tuning::new(&self.run).drawn(&self.plot).with(|settings| settings.away = self.away)
    }
}

#[derive(Debug, Clone, clap::Args)]
pub(super) struct Agreement {
    /// How long to compare the pages
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration::parse)]
    duration: Duration,
    #[command(flatten)]
    pub(super) run: Run,
}

impl Agreement {
    pub(super) fn tuning(&self) -> Tuning {
        Tuning::new(&self.run).with(|settings| settings.drift = self.duration)
    }
}

#[derive(Debug, Clone, clap::Args)]
pub(super) struct Conformance {
    #[command(flatten)]
    vcpus: Vcpus,
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    pub(super) run: Run,
}

impl Conformance {
    pub(super) fn tuning(&self) -> Tuning {
        Tuning::new(&self.run).at(&self.place).vcpus(&self.vcpus)
    }
}

/// The settings, but for what only the host's own frequency can tell.
#[derive(Debug, Clone)]
pub(super) struct Tuning {
    pub(super) settings: Settings,
    /// The told frequency, where it was given as such.
    pub(super) told_hz: Option<u64>,
    /// Without virtual machines.
    pub(super) in_process: bool,
    /// Where a picture goes.
    pub(super) plot: Option<PathBuf>,
}

impl Tuning {
    fn new(run: &Run) -> Self {
        let settings = Settings { patience: run.timeout, ..Settings::default() };
        Self { settings, told_hz: None, in_process: false, plot: None }
    }

    fn with(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(&mut self.settings);
        self
    }

    fn at(self, place: &Place) -> Self {
        Self { in_process: place.in_process, ..self }
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

    fn told(self, told: &Told) -> Self {
        Self { told_hz: told.tsc_hz, ..self }
            .with(|settings| settings.told_over_true = told.tsc_factor.unwrap_or(1.0))
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
    // Our guest reads what Linux reads.
    let default = ("default", Kind::default_for(GuestSystem::Linux));
    named([none, legacy, minimal, kvm, hyperv, default])
}

fn sources() -> impl TypedValueParser<Value = Source> {
    named(Source::ALL.map(|source| (source.name(), source)))
}

/// One of a table's names.
fn named<T, const N: usize>(table: [(&'static str, T); N]) -> impl TypedValueParser<Value = T>
where
    T: Copy + Send + Sync + 'static,
{
    PossibleValuesParser::new(table.map(|(name, _)| name)).try_map(move |given| {
        let found = table.iter().find(|(name, _)| *name == given);
        found.map(|(_, value)| *value).ok_or("not in the list")
    })
}

/// A frequency as people write it: `3478274491`, `3_478_274_491`.
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
    fn a_frequency_may_have_its_thousands_apart() {
        for text in ["3478274491", "3_478_274_491", "3,478,274,491"] {
            assert_eq!(hertz(text), Ok(3_478_274_491));
        }
        for text in ["", "0", "3.4GHz", "-1", "99999999999999999999"] {
            assert!(hertz(text).unwrap_err().contains(&format!("{text:?}")));
        }
    }

    #[test]
    fn a_factor_is_one_that_a_clock_could_have() {
        assert_eq!(factor("1.02299"), Ok(1.02299));
        for text in ["0", "-1", "NaN", "inf", "1e9", "two"] {
            assert!(factor(text).unwrap_err().contains(&format!("{text:?}")));
        }
    }
}
