//! What the machine itself says of its clock.

use std::time::{Duration, Instant};

use doctor::finding::Severity;
use doctor::report::DoctorReport;
use doctor::selection::RuleSelection;
use fleet::{Finding, Snapshot};
use inspect::tree::Tree;
use linux::adjtimex;
use linux::clock::Clock;
use sources::chronyd_client::ChronydClient;

/// The doctor's findings change rarely, and cost milliseconds.
const EXAMINED_EACH: Duration = Duration::from_secs(600);

/// What no daemon would state: the kernel gives up at it (NTP_PHASE_LIMIT,
/// include/linux/timex.h), s.
const GIVEN_UP_S: f64 = 16.0;

/// The machine, and what is not looked up at each scrape.
#[derive(Debug, Default)]
pub struct Machine {
    examined: Option<(Instant, Vec<Finding>)>,
}

impl Machine {
    /// Adds what the machine says to what a daemon knows, which may be nothing.
    pub fn add_to(&mut self, snapshot: &mut Snapshot) {
        kernel(snapshot);
        if snapshot.error_bound_s.is_none() {
            chronyd(snapshot);
        }
        if snapshot.error_bound_s.is_none() && snapshot.kernel_synchronised == Some(true) {
            snapshot.error_bound_s =
                snapshot.kernel_max_error_s.filter(|error_s| *error_s < GIVEN_UP_S);
        }
        if snapshot.synchronised.is_none() {
            snapshot.synchronised = snapshot.kernel_synchronised;
        }
        snapshot.read_s = cost_of_reading_s();
        let tree = Tree::live();
        let text = |path: &str| tree.text(path).known().cloned();
        snapshot.clocksource = text(facts::clocksource::CURRENT)
            .and_then(|text| facts::clocksource::parse_current(&text).known().cloned());
        snapshot.steal_s = text("/proc/stat").and_then(|stat| steal_s(&stat));
        let cpus = std::thread::available_parallelism().ok();
        snapshot.cpus = cpus.and_then(|cpus| u32::try_from(cpus.get()).ok());
        snapshot.findings = self.findings(&tree);
    }

    fn findings(&mut self, tree: &Tree) -> Vec<Finding> {
        let is_old = |(at, _): &(Instant, Vec<Finding>)| at.elapsed() > EXAMINED_EACH;
        if self.examined.as_ref().is_none_or(is_old) {
            let report = DoctorReport::by(inspect::read(tree), None, &RuleSelection::default());
            let found = report.diagnosis.findings.into_iter().map(|finding| Finding {
                rule: finding.rule,
                severity: match finding.severity {
                    Severity::Note => "note",
                    Severity::Warning => "warning",
                    Severity::Error => "error",
                }
                .to_owned(),
            });
            let mut found: Vec<_> = found.collect();
            // A series has one sample.
            found.sort();
            found.dedup();
            self.examined = Some((Instant::now(), found));
        }
        self.examined.as_ref().map(|(_, found)| found.clone()).unwrap_or_default()
    }
}

fn kernel(snapshot: &mut Snapshot) {
    let Ok(discipline) = adjtimex::read() else { return };
    snapshot.kernel_synchronised = Some(discipline.is_synchronised());
    snapshot.kernel_max_error_s = Some(discipline.max_error_us as f64 / 1e6);
    // In 2^-16 ppm.
    snapshot.frequency_correction = Some(discipline.frequency as f64 / 65_536.0 / 1e6);
}

/// adjtimex's offset is 0 under chronyd for ever; chronyd itself knows it.
fn chronyd(snapshot: &mut Snapshot) {
    let tracking = ChronydClient::new(None).synchronised_tracking();
    let Some(tracking) = tracking.known() else { return };
    // The root distance, as chronyd reports it: of now.
    let bound_s = tracking.root_delay_s / 2.0 + tracking.root_dispersion_s;
    snapshot.offset_s = Some(tracking.system_offset_s);
    snapshot.offset_bound_s = Some(bound_s);
    snapshot.error_bound_s = Some(tracking.system_offset_s.abs() + bound_s);
}

/// Steal of all CPUs, s: the eighth figure of the first line, in hundredths
/// (proc_stat(5), USER_HZ).
fn steal_s(stat: &str) -> Option<f64> {
    let cpus = stat.lines().next()?.strip_prefix("cpu ")?;
    let ticks: u64 = cpus.split_ascii_whitespace().nth(7)?.parse().ok()?;
    Some(ticks as f64 / 100.0)
}

/// The least of some hundred readings: what a program pays that is not interrupted.
fn cost_of_reading_s() -> Option<f64> {
    let least_ns = (0..20).filter_map(|_| {
        let begun = Clock::Monotonic.read_ns()?;
        for _ in 0..8 {
            std::hint::black_box(Clock::Realtime.read_ns());
        }
        Some(Clock::Monotonic.read_ns()?.saturating_sub(begun))
    });
    // Nine readings, as the two around them are one more.
    least_ns.min().map(|ns| ns as f64 / 9.0 / 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steal_is_the_eighth_figure() {
        let stat = "cpu  1 2 3 4 5 6 7 250 0 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n";
        assert_eq!(steal_s(stat), Some(2.5));
        assert_eq!(steal_s("cpu  1 2 3 4\n"), None);
        assert_eq!(steal_s(""), None);
    }

    #[test]
    fn a_machine_without_a_daemon_says_what_it_can() {
        let mut snapshot = Snapshot::default();
        Machine::default().add_to(&mut snapshot);
        assert!(snapshot.read_s.is_some_and(|read_s| read_s > 0.0 && read_s < 1e-3));
        assert!(snapshot.kernel_max_error_s.is_some());
        assert!(snapshot.cpus.is_some_and(|cpus| cpus > 0));
    }
}
