//! The options of the experiments.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use guest::layout::VCPUS_MAX;
use guest::source::Source;
use host::{ClockProvider, GuestSystem};
use instruments::duration;
use lab::{Experiment, LabSession, Settings};
use pvclock::Hertz;

use crate::error::CliError;
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

/// Which experiments, and what they are told. Each option states which of them it is for.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct ExperimentOptions {
    /// Experiments to run [default: all but locks and network]
    #[arg(value_name = "EXPERIMENT", value_parser = experiments())]
    experiments: Vec<Experiment>,

    /// Test only guests of this provider; repeatable (drift, cost, offset)
    #[arg(long, value_name = "NAME", value_parser = providers())]
    provider: Vec<ClockProvider>,

    /// Test only this clock of the guest; repeatable (drift, cost, offset)
    #[arg(long, value_name = "NAME", value_parser = sources())]
    source: Vec<Source>,

    /// Advertise this TSC frequency to the guest (drift, offset)
    #[arg(long, value_name = "HZ", value_parser = hertz, conflicts_with = "tsc_factor")]
    tsc_hz: Option<u64>,

    /// Advertise this multiple of the true TSC frequency, such as 1.02299 (drift, offset)
    #[arg(long, value_name = "FACTOR", value_parser = factor)]
    tsc_factor: Option<f64>,

    /// Number of the guest's vCPUs (updates, monotonic, conformance) [default: 2]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=VCPUS_MAX as i64))]
    vcpus: Option<u16>,

    /// How long to measure (drift, agreement) [default: 10s]
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    duration: Option<Duration>,

    /// Time between save and restore (restore) [default: 2s]
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    downtime: Option<Duration>,

    /// Number of reads, of all vCPUs together (monotonic) [default: 10000000, or as many as a busy
    /// host completes in 1 s]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    reads: Option<u64>,

    /// Number of rounds, each with one turn of every way of waiting (locks, network) [default: 5]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    rounds: Option<u64>,

    #[command(flatten)]
    run: RunOptions,
}

impl ExperimentOptions {
    pub(super) fn plan(&self) -> Result<LabPlan, CliError> {
        let chosen = Experiment::chosen(&self.experiments);
        self.check(&chosen)?;
        let mut plan = LabPlan::new(chosen, &self.run);
        let settings = &mut plan.session.settings;
        if !self.provider.is_empty() {
            settings.providers.clone_from(&self.provider);
        }
        settings.sources.clone_from(&self.source);
        settings.advertised_over_true = self.tsc_factor.unwrap_or(1.0);
        settings.vcpus = self.vcpus.unwrap_or(2).into();
        settings.drift = self.duration.unwrap_or(Duration::from_secs(10));
        settings.downtime = self.downtime.unwrap_or(Duration::from_secs(2));
        settings.rounds = self.rounds.unwrap_or(5);
        if let Some(reads) = self.reads {
            (settings.monotonic_reads, settings.monotonic_time) = (reads, None);
        }
        plan.session.advertised_tsc = self.tsc_hz.map(Hertz);
        Ok(plan)
    }

    /// Refuses an option that none of the experiments takes: it would seem to have been heard.
    fn check(&self, chosen: &[Experiment]) -> Result<(), CliError> {
        use Experiment::*;
        let clocks: &[Experiment] = &[Drift, Cost, Offset];
        let of_vcpus = &[Updates, Monotonic, Conformance];
        let options: [(&str, bool, &[Experiment]); 9] = [
            ("--provider", !self.provider.is_empty(), clocks),
            ("--source", !self.source.is_empty(), clocks),
            ("--tsc-hz", self.tsc_hz.is_some(), &[Drift, Offset]),
            ("--tsc-factor", self.tsc_factor.is_some(), &[Drift, Offset]),
            ("--vcpus", self.vcpus.is_some(), of_vcpus),
            ("--duration", self.duration.is_some(), &[Drift, Agreement]),
            ("--downtime", self.downtime.is_some(), &[Restore]),
            ("--reads", self.reads.is_some(), &[Monotonic]),
            ("--rounds", self.rounds.is_some(), &[Locks, Network]),
        ];
        let is_unused = |(_, is_given, takers): &(&str, bool, &[Experiment])| {
            *is_given && !takers.iter().any(|one| chosen.contains(one))
        };
        let Some((option, _, takers)) = options.into_iter().find(is_unused) else { return Ok(()) };
        let takers: Vec<&str> = takers.iter().map(|one| one.name()).collect();
        Err(CliError::Failed {
            cause: format!("{option} changes none of these experiments"),
            remedy: format!("omit {option}, or add one of: {}", takers.join(", ")),
        })
    }
}

/// What to run, and where the result goes.
#[derive(Debug, Clone)]
pub(super) struct LabPlan {
    pub(super) session: LabSession,
    pub(super) run: RunOptions,
}

impl LabPlan {
    pub(super) fn new(experiments: Vec<Experiment>, run: &RunOptions) -> Self {
        let settings = Settings { timeout: run.timeout, ..Settings::default() };
        let session = LabSession { experiments, settings, advertised_tsc: None };
        Self { session, run: run.clone() }
    }
}

/// What each experiment is about, for the help.
const SUBJECTS: [(Experiment, &str); 11] = [
    (Experiment::Drift, "Guest time against host time, by provider and clock"),
    (Experiment::Updates, "Effect of each event on the clock page, KVM's and Parachron's"),
    (Experiment::Cost, "Cost of reading each clock inside the guest"),
    (Experiment::Monotonic, "Check that time never goes backward between vCPUs"),
    (Experiment::Offset, "Offset between the guest's clock and the host's"),
    (Experiment::Restore, "What a guest notices after save and restore"),
    (Experiment::Ticks, "Timer ticks lost while a vCPU is held, by policy"),
    (Experiment::Locks, "Spin locks when vCPUs outnumber CPUs, by how waiters wait"),
    (Experiment::Network, "Cost of a packet, by how guest and host wait for it"),
    (Experiment::Agreement, "KVM's clock page against Parachron's, for one guest"),
    (Experiment::Conformance, "Run the checks of KVM's own guest-clock tests"),
];

fn experiments() -> impl TypedValueParser<Value = Experiment> {
    let values = SUBJECTS.map(|(one, subject)| PossibleValue::new(one.name()).help(subject));
    PossibleValuesParser::new(values).try_map(|name| {
        let found = SUBJECTS.iter().find(|(one, _)| one.name() == name);
        found.map(|(one, _)| *one).ok_or("not in the list")
    })
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
    fn an_option_that_no_chosen_experiment_takes_is_refused() {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            options: ExperimentOptions,
        }
        let plan = |line: &[&str]| {
            let line = ["lab"].iter().chain(line);
            <Line as clap::Parser>::try_parse_from(line).unwrap().options.plan()
        };
        let refused = plan(&["ticks", "--vcpus", "3"]).unwrap_err().to_string();
        assert_eq!(refused, "--vcpus changes none of these experiments");
        assert!(plan(&["ticks", "updates", "--vcpus", "3"]).is_ok());
        assert_eq!(plan(&["--vcpus", "3"]).unwrap().session.settings.vcpus, 3);
        // All have a subject in the help.
        assert!(Experiment::ALL.iter().all(|all| SUBJECTS.iter().any(|(one, _)| one == all)));
    }

    #[test]
    fn a_factor_must_be_possible_for_a_clock() {
        assert_eq!(factor("1.02299"), Ok(1.02299));
        for text in ["0", "-1", "NaN", "inf", "1e9", "two"] {
            assert!(factor(text).unwrap_err().contains(&format!("{text:?}")));
        }
    }
}
