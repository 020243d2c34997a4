//! What the machine itself says of its clock.

use std::time::{Duration, Instant};

use crate::fleet::{DaemonTracking, MachineNames, RuleFinding, Snapshot};
use doctor::finding::Severity;
use doctor::report::DoctorReport;
use doctor::rule::RuleSelection;
use facts::running::parse_stat;
use facts::steering::TimeKeeperKind;
use facts::system::parse_cpu_time;
use facts::{Fact, Facts, Unknown};
use inspect::tree::Tree;
use linux::adjtimex;
use linux::clock::LinuxClock;
use sources::chronyd_client::ChronydClient;

/// The doctor's findings change rarely, and cost milliseconds.
const EXAMINED_EACH: Duration = Duration::from_secs(600);

/// The machine, and what is not looked up at each scrape.
#[derive(Debug, Default)]
pub struct MachineScrape {
    examined: Option<Examined>,
}

#[derive(Debug)]
struct Examined {
    at: Instant,
    findings: Vec<RuleFinding>,
    machine: MachineNames,
    /// The time daemons that run; None where other users' processes are hidden.
    keepers: Option<Vec<TimeKeeperKind>>,
}

impl MachineScrape {
    /// Adds what the machine says to what a daemon knows, which may be nothing.
    pub fn add_to(&mut self, snapshot: &mut Snapshot) {
        let tree = Tree::live();
        if self.examined.as_ref().is_none_or(|examined| examined.at.elapsed() > EXAMINED_EACH) {
            self.examined = Some(examine(&tree));
        }
        let mut stated_s = kernel(snapshot);
        let keepers = self.examined.as_ref().and_then(|examined| examined.keepers.as_deref());
        if snapshot.daemon_up == Some(false) && keepers.is_none_or(<[_]>::is_empty) {
            // The kernel holds what a daemon stated that is gone, and no other is known: nobody
            // notices a restore.
            (snapshot.synchronised, stated_s) = (Some(false), None);
        }
        snapshot.complete(chronyd, stated_s.filter(|_| states_bounds(keepers)));
        snapshot.read_s = cost_of_reading_s();
        let text = |path: &str| tree.text(path).value().cloned();
        snapshot.clocksource = text(facts::clocksource::CURRENT)
            .and_then(|text| facts::clocksource::parse_current(&text).value().cloned());
        let stat = text("/proc/stat").unwrap_or_default();
        (snapshot.steal_s, snapshot.cpus) = (steal_s(&stat), cpus(&stat));
        if let Some(examined) = &self.examined {
            snapshot.findings.clone_from(&examined.findings);
            snapshot.machine.clone_from(&examined.machine);
        }
    }
}

/// Whether the kernel's maxerror is a bound: systemd-timesyncd states 0 at each poll.
fn states_bounds(keepers: Option<&[TimeKeeperKind]>) -> bool {
    keepers.is_some_and(|keepers| !keepers.contains(&TimeKeeperKind::SystemdTimesyncd))
}

fn examine(tree: &Tree) -> Examined {
    let facts = inspect::read(tree);
    let keepers = facts.steering.keepers.value().map(|keepers| {
        let running = keepers.iter().filter(|keeper| keeper.running).map(|keeper| keeper.kind);
        // Parachron may have gone since, and an agent keeps no time.
        running.filter(|kind| kind.disciplines()).collect()
    });
    let machine = names(&facts);
    let report = DoctorReport::with_rules(facts, None, &RuleSelection::default());
    let found = report.diagnosis.findings.into_iter().map(|finding| RuleFinding {
        rule: finding.rule,
        severity: match finding.severity {
            Severity::Note => "note",
            Severity::Warning => "warning",
            Severity::Error => "error",
        }
        .to_owned(),
    });
    let mut findings: Vec<_> = found.collect();
    // A series has one sample.
    findings.sort();
    findings.dedup();
    Examined { at: Instant::now(), findings, machine, keepers }
}

/// What it runs on.
fn names(facts: &Facts) -> MachineNames {
    let platform = match &facts.cpu.hypervisor {
        Fact::Known(hypervisor) => Some(hypervisor.kind.name().to_owned()),
        Fact::Unknown(Unknown::NotApplicable { .. }) => Some("none".to_owned()),
        Fact::Unknown(_) => None,
    };
    let product = facts.system.product.value().cloned();
    MachineNames { platform, product, kernel: facts.kernel.release.value().cloned() }
}

/// What the kernel says; the bound that its daemon states.
fn kernel(snapshot: &mut Snapshot) -> Option<f64> {
    let discipline = adjtimex::read().ok()?;
    snapshot.kernel_synchronised = Some(discipline.is_synchronised());
    snapshot.kernel_max_error_s = Some(discipline.max_error_us as f64 / 1e6);
    snapshot.frequency_correction = Some(discipline.frequency_ppb() / 1e9);
    discipline.stated_error_ns().map(|ns| ns as f64 / 1e9)
}

/// Under chronyd adjtimex always reports an offset of 0; chronyd itself knows it.
fn chronyd() -> Option<DaemonTracking> {
    let tracking = ChronydClient::new(None).tracking().ok()?;
    // None where it follows its own clock (`local`), which shows no error and has no bound.
    let bound = tracking.error_bound();
    let error_ns = bound.error_ns?;
    let now_ns = LinuxClock::Realtime.read_ns().map(u128::from);
    let age_s = now_ns.map(|now_ns| now_ns.saturating_sub(bound.updated_ns) as f64 / 1e9);
    let offset_s = tracking.system_offset.value();
    let bound_s = error_ns as f64 / 1e9 - offset_s.abs();
    let last_offset_s = tracking.last_offset.value();
    Some(DaemonTracking { offset_s, last_offset_s, bound_s, age_s })
}

/// Steal of all CPUs, s, from hundredths (USER_HZ). By the line of all: it goes on when a
/// CPU is taken away, where the sum of those that are there would go back.
fn steal_s(stat: &str) -> Option<f64> {
    parse_cpu_time(stat).value().map(|time| time.stolen as f64 / 100.0)
}

/// The machine's CPUs, whatever share of them this process has.
fn cpus(stat: &str) -> Option<u32> {
    parse_stat(stat).value().and_then(|activity| u32::try_from(activity.stolen.len()).ok())
}

/// The least of some hundred readings: what a program pays that is not interrupted.
fn cost_of_reading_s() -> Option<f64> {
    let least_ns = (0..20).filter_map(|_| {
        let begun = LinuxClock::Monotonic.read_ns()?;
        for _ in 0..8 {
            std::hint::black_box(LinuxClock::Realtime.read_ns());
        }
        Some(LinuxClock::Monotonic.read_ns()?.saturating_sub(begun))
    });
    // Nine readings, as the two around them are one more.
    // A clock that stands between its ticks shows 0: not measured.
    least_ns.filter(|ns| *ns > 0).min().map(|ns| ns as f64 / 9.0 / 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steal_is_the_eighth_figure() {
        let stat = "cpu  1 2 3 4 5 6 7 250 0 0\ncpu0 1 1 1 1 1 1 1 1 0 0\nintr 9 1\nctxt 8\n";
        assert_eq!((steal_s(stat), cpus(stat), cpus("")), (Some(2.5), Some(1), None));
        assert_eq!(steal_s("cpu  1 2 3 4\n"), None);
        assert_eq!(steal_s(""), None);
    }

    #[test]
    fn a_machine_without_a_daemon_says_what_it_can() {
        let mut snapshot = Snapshot::default();
        MachineScrape::default().add_to(&mut snapshot);
        assert!(snapshot.read_s.is_some_and(|read_s| read_s > 0.0 && read_s < 1e-3));
        assert!(snapshot.kernel_max_error_s.is_some() && snapshot.machine.kernel.is_some());
        assert!(snapshot.cpus.is_some_and(|cpus| cpus > 0));
    }

    #[test]
    fn a_maxerror_is_a_bound_if_it_is_known_that_timesyncd_did_not_set_it() {
        assert!(states_bounds(Some(&[])) && states_bounds(Some(&[TimeKeeperKind::Chrony])));
        assert!(!states_bounds(Some(&[TimeKeeperKind::SystemdTimesyncd])) && !states_bounds(None));
    }

    #[test]
    fn a_daemon_that_knows_no_bound_is_not_contradicted() {
        let sources =
            vec![crate::fleet::Source { name: "ntp a".into(), ..crate::fleet::Source::default() }];
        let mut snapshot = Snapshot { daemon_up: Some(true), sources, ..Snapshot::default() };
        MachineScrape::default().add_to(&mut snapshot);
        assert_eq!(snapshot.error_bound_s, None);
    }
}
