//! The options. Each experiment takes those that apply to it; `parachron lab`
//! alone takes all of them.

use std::path::PathBuf;
use std::time::Duration;

use clap::Subcommand;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use guest::layout::VCPUS_MAX;
use guest::source::Source;
use host::{ClockProvider, GuestSystem};
use instruments::duration;
use lab::{Experiment, LabSession, Settings};
use pvclock::Hertz;

use crate::output::Format;

/// How to run, and where the result goes.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct RunOptions {
    /// How long to wait for each reply of the guest
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration::parse)]
    pub(super) timeout: Duration,

    /// Print all figures, and the checks that passed
    #[arg(long, short)]
    pub(super) verbose: bool,

    /// Format of the result
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(super) format: Format,

    /// Write the result to this file instead of standard output
    #[arg(long, value_name = "FILE")]
    pub(super) output: Option<PathBuf>,
}

/// A group of options, which changes what is run.
pub(super) trait OptionGroup {
    fn apply(&self, plan: &mut LabPlan);
}

/// Groups of options, and what each changes of the plan.
macro_rules! groups {
    ($($(#[doc = $doc:literal])+ $name:ident {
        $($(#[$attribute:meta])+ $field:ident: $type:ty,)+
    } => |$this:ident, $plan:ident| $apply:block)+) => {
        $(
            $(#[doc = $doc])+
            #[derive(Debug, Clone, clap::Args)]
            pub(super) struct $name {
                $($(#[$attribute])+ $field: $type,)+
            }

            impl OptionGroup for $name {
                fn apply(&$this, $plan: &mut LabPlan) $apply
            }
        )+
    };
}

groups!(
    /// Which clocks.
    ClockOptions {
        /// Test only guests of this provider; repeatable
        #[arg(long, value_name = "NAME", value_parser = providers())]
        provider: Vec<ClockProvider>,

        /// Test only this clock of the guest; repeatable
        #[arg(long, value_name = "NAME", value_parser = sources())]
        source: Vec<Source>,
    } => |self, plan| {
        let settings = &mut plan.session.settings;
        if !self.provider.is_empty() {
            settings.providers.clone_from(&self.provider);
        }
        settings.sources.clone_from(&self.source);
    }

    /// The TSC frequency in drift and offset.
    AdvertisedTsc {
        /// Advertise this TSC frequency to the guest (drift, offset)
        #[arg(long, value_name = "HZ", value_parser = hertz, conflicts_with = "tsc_factor")]
        tsc_hz: Option<u64>,

        /// Advertise this multiple of the true TSC frequency, such as 1.02299 (drift, offset)
        #[arg(long, value_name = "FACTOR", value_parser = factor)]
        tsc_factor: Option<f64>,
    } => |self, plan| {
        plan.session.advertised_tsc = self.tsc_hz.map(Hertz);
        plan.session.settings.advertised_over_true = self.tsc_factor.unwrap_or(1.0);
    }

    /// How many vCPUs.
    Vcpus {
        /// Number of the guest's vCPUs
        #[arg(long, value_name = "N", default_value_t = 2,
              value_parser = clap::value_parser!(u16).range(1..=VCPUS_MAX as i64))]
        vcpus: u16,
    } => |self, plan| {
        plan.session.settings.vcpus = self.vcpus.into();
    }

    /// For how long.
    DurationOption {
        /// How long to measure (drift, agreement)
        #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration::parse)]
        duration: Duration,
    } => |self, plan| {
        plan.session.settings.drift = self.duration;
    }

    /// How long a machine is gone.
    Downtime {
        /// Time between save and restore (restore)
        #[arg(long, value_name = "TIME", default_value = "2s", value_parser = duration::parse)]
        downtime: Duration,
    } => |self, plan| {
        plan.session.settings.downtime = self.downtime;
    }

    /// How much.
    Reads {
        /// Reads of all vCPUs together (monotonic) [default: 10000000, or as many as a busy
        /// host completes in 1 s]
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
        reads: Option<u64>,
    } => |self, plan| {
        if let Some(reads) = self.reads {
            let settings = &mut plan.session.settings;
            (settings.monotonic_reads, settings.monotonic_time) = (reads, None);
        }
    }

    /// How often.
    Rounds {
        /// Rounds in which each way of waiting has a turn (locks, network)
        #[arg(long, value_name = "N", default_value_t = 5,
              value_parser = clap::value_parser!(u64).range(1..=10_000))]
        rounds: u64,
    } => |self, plan| {
        plan.session.settings.rounds = self.rounds;
    }
);

/// The experiments, and the groups of options that each takes.
macro_rules! experiments {
    ($(#[doc = $doc:literal] $name:ident: $($field:ident $group:ty),*;)+) => {
        $(
            #[derive(Debug, Clone, clap::Args)]
            pub(super) struct $name {
                $(#[command(flatten)] $field: $group,)*
                #[command(flatten)]
                run: RunOptions,
            }
        )+

        /// One experiment.
        #[derive(Debug, Subcommand)]
        pub(super) enum ExperimentOptions {
            $(#[doc = $doc] $name($name),)+
        }

        impl ExperimentOptions {
            pub(super) fn plan(&self) -> LabPlan {
                match self {
                    $(Self::$name(options) => {
                        LabPlan::new(vec![Experiment::$name], &options.run, &[$(&options.$field),*])
                    })+
                }
            }
        }
    };
}

experiments!(
    /// Guest time against host time, by provider and clock
    Drift: clocks ClockOptions, tsc AdvertisedTsc, measured DurationOption;
    /// Effect of each event on the clock page, KVM's and Parachron's
    Updates: vcpus Vcpus;
    /// Cost of reading each clock inside the guest
    Cost: clocks ClockOptions;
    /// Check that time never goes backward between vCPUs
    Monotonic: vcpus Vcpus, reads Reads;
    /// Offset between the guest's clock and the host's
    Offset: clocks ClockOptions, tsc AdvertisedTsc;
    /// What a guest notices after save and restore
    Restore: downtime Downtime;
    /// Timer ticks lost while a vCPU is held, by policy
    Ticks: ;
    /// Spin locks when vCPUs outnumber CPUs, by how waiters wait
    Locks: rounds Rounds;
    /// Cost of a packet, by how guest and host wait for it
    Network: rounds Rounds;
    /// KVM's clock page against Parachron's, for one guest
    Agreement: measured DurationOption;
    /// Run the checks of KVM's own guest-clock tests
    Conformance: vcpus Vcpus;
);

/// `parachron lab` alone.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct All {
    /// Run only this experiment; repeatable
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
    run: RunOptions,
}

impl All {
    pub(super) fn plan(&self) -> LabPlan {
        let Self { clocks, tsc, vcpus, measured, downtime, reads, rounds, .. } = self;
        let groups: [&dyn OptionGroup; 7] = [clocks, tsc, vcpus, measured, downtime, reads, rounds];
        LabPlan::new(Experiment::chosen(&self.only), &self.run, &groups)
    }
}

/// What to run, and where the result goes.
#[derive(Debug, Clone)]
pub(super) struct LabPlan {
    pub(super) session: LabSession,
    pub(super) run: RunOptions,
}

impl LabPlan {
    pub(super) fn new(
        experiments: Vec<Experiment>,
        run: &RunOptions,
        groups: &[&dyn OptionGroup],
    ) -> Self {
        let settings = Settings { timeout: run.timeout, ..Settings::default() };
        let session = LabSession { experiments, settings, advertised_tsc: None };
        let mut plan = Self { session, run: run.clone() };
        groups.iter().for_each(|group| group.apply(&mut plan));
        plan
    }
}

fn experiments() -> impl TypedValueParser<Value = Experiment> {
    let [a, b, c, d, e, f, g, h, i] = Experiment::ALL;
    named(
        [a, b, c, d, e, f, g, h, i, Experiment::Locks, Experiment::Network]
            .map(|one| (one.name(), one)),
    )
}

pub(super) fn providers() -> impl TypedValueParser<Value = ClockProvider> {
    let [none, legacy, minimal, kvm, hyperv] = ClockProvider::ALL.map(|kind| (kind.name(), kind));
    // Our guest reads the same clocks as Linux.
    let default = ("default", ClockProvider::default_for(GuestSystem::Linux));
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
