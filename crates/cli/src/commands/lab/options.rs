//! The options. Each experiment takes those that apply to it; `parachron lab`
//! alone takes all of them.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use guest::layout::VCPUS_MAX;
use guest::source::Source;
use host::{GuestSystem, Kind};
use instruments::duration;
use lab::{Experiment, Session, Settings};
use pvclock::Hertz;

use super::format::LabFormat;

/// Which clocks.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct ClockOptions {
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

/// As a picture too.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct Plot {
    /// Also draw the result as SVG to this file
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
}

/// How to run, and where the result goes.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct RunOptions {
    /// How long to wait for each reply of the guest
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration::parse)]
    pub(super) timeout: Duration,

    /// Format of the result
    #[arg(long, value_enum, default_value_t = LabFormat::Text)]
    pub(super) format: LabFormat,

    /// Write the result to this file instead of standard output
    #[arg(long, value_name = "FILE")]
    pub(super) output: Option<PathBuf>,
}

/// For how long.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct DurationOption {
    /// How long to measure (drift, agreement)
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration::parse)]
    duration: Duration,
}

/// How long a machine is gone.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct Downtime {
    /// Time between save and restore (restore)
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = duration::parse)]
    downtime: Duration,
}

/// How much.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct Reads {
    /// Reads of all vCPUs together (monotonic) [default: 10000000, or those that 1 s
    /// of a busy host allows]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    reads: Option<u64>,
}

/// How often.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct Rounds {
    /// Rounds in which each way of waiting has a turn (locks, network)
    #[arg(long, value_name = "N", default_value_t = 5,
          value_parser = clap::value_parser!(u64).range(1..=10_000))]
    rounds: u64,
}

/// A group of options, which changes what is run.
trait OptionGroup {
    fn apply(&self, plan: &mut LabPlan);
}

impl OptionGroup for ClockOptions {
    fn apply(&self, plan: &mut LabPlan) {
        let settings = &mut plan.session.settings;
        if !self.provider.is_empty() {
            settings.providers.clone_from(&self.provider);
        }
        settings.sources.clone_from(&self.source);
    }
}

impl OptionGroup for AdvertisedTsc {
    fn apply(&self, plan: &mut LabPlan) {
        plan.session.advertised_tsc = self.tsc_hz.map(Hertz);
        plan.session.settings.advertised_over_true = self.tsc_factor.unwrap_or(1.0);
    }
}

impl OptionGroup for Vcpus {
    fn apply(&self, plan: &mut LabPlan) {
        plan.session.settings.vcpus = self.vcpus.into();
    }
}

impl OptionGroup for Plot {
    fn apply(&self, plan: &mut LabPlan) {
        plan.plot.clone_from(&self.plot);
    }
}

impl OptionGroup for DurationOption {
    fn apply(&self, plan: &mut LabPlan) {
        plan.session.settings.drift = self.duration;
    }
}

impl OptionGroup for Downtime {
    fn apply(&self, plan: &mut LabPlan) {
        plan.session.settings.downtime = self.downtime;
    }
}

impl OptionGroup for Reads {
    fn apply(&self, plan: &mut LabPlan) {
        if let Some(reads) = self.reads {
            let settings = &mut plan.session.settings;
            (settings.monotonic_reads, settings.monotonic_time) = (reads, None);
        }
    }
}

impl OptionGroup for Rounds {
    fn apply(&self, plan: &mut LabPlan) {
        plan.session.settings.rounds = self.rounds;
    }
}

/// The options of one experiment.
macro_rules! experiment {
    ($name:ident: $($field:ident $part:ty),*) => {
        #[derive(Debug, Clone, clap::Args)]
        pub(super) struct $name {
            $(#[command(flatten)] $field: $part,)*
            #[command(flatten)]
            run: RunOptions,
        }

        impl $name {
            pub(super) fn plan(&self) -> LabPlan {
                let parts: Vec<&dyn OptionGroup> = vec![$(&self.$field),*];
                let mut plan = LabPlan::new(vec![Experiment::$name], &self.run);
                parts.into_iter().for_each(|part| part.apply(&mut plan));
                plan
            }
        }
    };
}

experiment!(Drift: clocks ClockOptions, tsc AdvertisedTsc, measured DurationOption, plot Plot);
experiment!(Updates: vcpus Vcpus);
experiment!(Cost: clocks ClockOptions, plot Plot);
experiment!(Monotonic: vcpus Vcpus, reads Reads);
experiment!(Offset: clocks ClockOptions, tsc AdvertisedTsc);
experiment!(Restore: downtime Downtime, plot Plot);
experiment!(Ticks:);
experiment!(Locks: rounds Rounds);
experiment!(Network: rounds Rounds);
experiment!(Agreement: measured DurationOption);
experiment!(Conformance: vcpus Vcpus);

/// `parachron lab` alone.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct All {
    /// Run only this experiment; may be repeated
    #[arg(long, value_name = "NAME", value_parser = experiments())]
    only: Vec<Experiment>,
    #[command(flatten)]
    clocks: ClockOptions,
    #[command(flatten)]
    tsc: AdvertisedTsc,
    #[command(flatten)]
    vcpus: Vcpus,
    #[command(flatten)]
    measured: DurationOption,
    #[command(flatten)]
    downtime: Downtime,
    #[command(flatten)]
    reads: Reads,
    #[command(flatten)]
    rounds: Rounds,
    #[command(flatten)]
    plot: Plot,
    #[command(flatten)]
    run: RunOptions,
}

impl All {
    pub(super) fn plan(&self) -> LabPlan {
        let Self { clocks, tsc, vcpus, measured, downtime, reads, rounds, plot, .. } = self;
        let parts: [&dyn OptionGroup; 8] =
            [clocks, tsc, vcpus, measured, downtime, reads, rounds, plot];
        let experiments = Experiment::chosen(&self.only);
        let mut plan = LabPlan::new(experiments, &self.run);
        for part in parts {
            part.apply(&mut plan);
        }
        plan
    }
}

/// What to run, and where the result goes.
#[derive(Debug, Clone)]
pub(super) struct LabPlan {
    pub(super) session: Session,
    pub(super) run: RunOptions,
    /// The file of the plot.
    pub(super) plot: Option<PathBuf>,
}

impl LabPlan {
    pub(super) fn new(experiments: Vec<Experiment>, run: &RunOptions) -> Self {
        let settings = Settings { timeout: run.timeout, ..Settings::default() };
        let session = Session { experiments, settings, advertised_tsc: None };
        Self { session, run: run.clone(), plot: None }
    }
}

fn experiments() -> impl TypedValueParser<Value = Experiment> {
    named(Experiment::ALL.map(|one| (one.name(), one)))
}

pub(super) fn providers() -> impl TypedValueParser<Value = Kind> {
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
