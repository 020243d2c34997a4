//! What a guest sees of being saved and restored.

use std::ops::Range;

use guest::request::GuestRequest;
use guest::source::Source;
use host::{ClockProvider, RestorePolicy};
use instruments::rate::ReadingPair;
use kvm_bindings::{KVM_CLOCK_HOST_TSC, KVM_CLOCK_REALTIME};
use pvclock::kvm_clock::TimeInfo;
use serde::Serialize;
use vmm::{Machine, MachineError, SavedMachine, run_delay};

use crate::bench::{LabBench, Provider};
use crate::pages::{step_ns, time_info};
use crate::results::{Check, ColumnForm, ExperimentResult, ResultTable};
use crate::sample::{VCPU, boot_ns, not_run, on_own_cpus, tightest, width_ns};
use crate::settings::{LabError, LabProgress};
use crate::tsc_offsets::TscOffsets;

const SOURCES: [Source; 2] = [Source::KvmClock, Source::Tsc];
const POLICIES: [RestorePolicy; 2] = [RestorePolicy::Advance, RestorePolicy::Freeze];
const PROVIDERS: [Provider; 2] = [Provider::Kernel, Provider::Own(ClockProvider::Kvm)];

/// The most that a restore may state as its bound: its host reads clock and TSC at once, within
/// some ns at a load of 15, and tries again where something came between. What the scheduler
/// counts as waiting for a CPU comes on top; nothing that the restore itself says does.
const BOUND_NS: f64 = 2_000.0;
/// Readings of a clock before and after, of which the tightest counts.
const TRIES: Range<u32> = 200..200;
/// Two readings of the host's clocks and TSC, each of both at once.
const CLOCK_NS: f64 = 1_000.0;
/// The rate that the guest is given against the host's clock, while it runs.
const CLOCK_PPM: f64 = 50.0;

/// The clock page before and after, at one TSC: roundings, of the page written anew
/// and of the TSC offset.
const LINE_NS: i64 = 2;

/// How often GUEST_STOPPED is read: it must be set once.
const READS: u32 = 3;

pub(crate) fn run(
    bench: &LabBench<'_>,
    progress: &mut dyn LabProgress,
) -> Result<ExperimentResult, LabError> {
    let runs = PROVIDERS.iter().flat_map(|provider| POLICIES.map(|policy| (*provider, policy)));
    let runs: Vec<_> = runs.collect();
    let part = |index: usize| index as f64 / (2 * runs.len()) as f64;
    // All are away at the same time.
    let mut away = Vec::new();
    for (index, &(provider, policy)) in runs.iter().enumerate() {
        let title = format!("{}, {}", provider.label(), policy.name());
        progress.step(&format!("{title}: saving"), part(index));
        away.push((provider, policy, title, RestoreGap::save(bench, provider)));
    }
    std::thread::sleep(bench.settings.downtime);
    let (mut rows, mut checks) = (Vec::new(), Vec::new());
    for (index, (provider, policy, title, saved)) in away.into_iter().enumerate() {
        progress.step(&format!("{title}: restoring"), part(runs.len() + index));
        let back = saved.and_then(|saved| saved.restore(provider, policy, &title));
        match back {
            Ok((seen, checked)) => {
                rows.extend(seen);
                checks.extend(checked);
            }
            Err(error) => checks.push(not_run(title, "restored".to_owned(), &error)),
        }
    }
    Ok((table(&rows), checks))
}

/// What a guest sees of one save and restore.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct RestoreRow {
    clock_by: &'static str,
    policy: &'static str,
    source: &'static str,
    /// By the host's clock.
    downtime_s: f64,
    /// How far the guest's clock advanced, and how far it should have.
    seen_s: f64,
    expected_s: f64,
    error_ns: f64,
    /// The computed step and the width of both readings.
    bound_ns: f64,
    guest_stopped: u32,
}

fn table(rows: &[RestoreRow]) -> ResultTable {
    use ColumnForm::{Count, Digits, Name, Nanos};
    let columns = [
        ("clock_by", "clock by", "", Name),
        ("policy", "policy", "", Name),
        ("source", "guest's\nclock", "", Name),
        ("downtime_s", "down", "s", Digits(3)),
        ("seen_s", "seen", "s", Digits(3)),
        ("expected_s", "expected", "s", Digits(3)),
        ("error_ns", "error", "", Nanos),
        ("bound_ns", "±", "", Nanos),
        ("guest_stopped", "GUEST_\nSTOPPED", "", Count),
    ];
    ResultTable::new("Restore: what a guest notices after save and restore", &columns, rows)
        .worst("error_ns")
        .note(
            "down: from save to restore by the host's clock. seen: how far the guest's clock \
             advanced. ±: the bound of the error. GUEST_STOPPED: how often the guest saw it.",
        )
}

/// A saved machine.
struct RestoreGap {
    saved: SavedMachine,
    /// Its clocks just before.
    before: [ReadingPair; SOURCES.len()],
    /// Its clock page then.
    page: TimeInfo,
    /// How long a reading of the kernel's clock takes.
    reading_ns: u64,
}

impl RestoreGap {
    fn save(bench: &LabBench<'_>, provider: Provider) -> Result<Self, LabError> {
        let machine = bench.start(provider, 1)?;
        machine.discover(VCPU)?;
        let before = sample(&machine)?;
        let reading_ns = match provider {
            Provider::Kernel | Provider::KernelHyperV => reading_ns(&machine)?,
            Provider::Own(_) => 0,
        };
        let page = time_info(machine.ram(), VCPU)?;
        Ok(Self { saved: machine.save()?, before, page, reading_ns })
    }

    /// Restores it, and compares each clock with the plan:
    ///
    /// ```text
    /// expected = taken − before + away + after − since
    /// away     = real time at since − real time at taken     Advance; Freeze: since − began
    /// ```
    ///
    /// Read 2 ms before the save (taken) and 3 ms after the restore (since), 5 s
    /// later: 5.005 s by advance, 0.005 s by freeze.
    fn restore(
        self,
        provider: Provider,
        policy: RestorePolicy,
        title: &str,
    ) -> Result<(Vec<RestoreRow>, Vec<Check>), LabError> {
        let waited_before = run_delay::of_this_thread();
        let (machine, clock) = Machine::restore(&self.saved, policy)?;
        let waited = run_delay::of_this_thread().zip(waited_before);
        let waited_ns = waited.map_or(0, |(after, before)| after.0.saturating_sub(before.0));
        let stated_ns = (clock.bound.0 as f64).min(BOUND_NS + waited_ns as f64);
        let mut guest_stopped = 0;
        for _ in 0..READS {
            let [set, ..] = machine.request(VCPU, GuestRequest::TakeGuestStopped)?;
            guest_stopped += u32::from(set != 0);
        }
        let after = sample(&machine)?;
        let mut checks = vec![Check::new(
            format!("{title}: GUEST_STOPPED"),
            "seen exactly once",
            format!("seen in {guest_stopped} of {READS} reads"),
            guest_stopped == 1,
        )];
        let offsets = TscOffsets::probe()?;
        checks.push(line(title, step_ns(&self.page, &time_info(machine.ram(), VCPU)?), offsets));
        let (taken, since) = (self.saved.host_clocks(), clock.since);
        let span_ns = |from: u64, to: u64| to.wrapping_sub(from).cast_signed() as f64;
        let away_ns = match policy {
            RestorePolicy::Advance => span_ns(taken.real.0.0, since.real.0.0),
            RestorePolicy::Hold => span_ns(taken.boot.0, since.boot.0),
            _ => span_ns(clock.began.boot.0, since.boot.0),
        };
        let mut rows = Vec::new();
        for ((source, before), after) in SOURCES.into_iter().zip(self.before).zip(after) {
            let ran_ns = since_ns(taken.boot.0, before) - since_ns(since.boot.0, after);
            let widths_ns = (width_ns(before) + width_ns(after)) as f64 / 2.0;
            let bound_ns = stated_ns + self.reading_ns as f64 + widths_ns + CLOCK_NS;
            let seen_ns = after.tsc.wrapping_sub(before.tsc).cast_signed() as f64;
            let row = RestoreRow {
                clock_by: provider.label(),
                policy: policy.name(),
                source: source.name(),
                downtime_s: since.boot.0.saturating_sub(taken.boot.0) as f64 / 1e9,
                seen_s: seen_ns / 1e9,
                expected_s: (ran_ns + away_ns) / 1e9,
                error_ns: seen_ns - ran_ns - away_ns,
                bound_ns: bound_ns + ran_ns * CLOCK_PPM / 1e6,
                guest_stopped,
            };
            // A provider outside KVM cannot follow offsets that KVM changes by itself.
            let moved = provider.is_own() && offsets == TscOffsets::Moved;
            let depends = source == Source::Tsc || moved;
            checks.push(row.check(title).excused(offsets.reason().filter(|_| depends)));
            rows.push(row);
        }
        Ok((rows, checks))
    }
}

/// Clock and TSC keep their relation, by whatever policy.
fn line(title: &str, step_ns: i64, offsets: TscOffsets) -> Check {
    Check::new(
        format!("{title}: kvm-clock at the same TSC"),
        format!("unchanged, ± {LINE_NS} ns"),
        format!("{step_ns:+} ns"),
        step_ns.abs() <= LINE_NS,
    )
    .excused(offsets.reason())
}

/// A moment less the middle of a reading, ns.
fn since_ns(moment: u64, reading: ReadingPair) -> f64 {
    moment.wrapping_sub(reading.before_ns).cast_signed() as f64 - width_ns(reading) as f64 / 2.0
}

impl RestoreRow {
    fn check(&self, title: &str) -> Check {
        Check::new(
            format!("{title}: {}", self.source),
            format!("{:.6} s pass in the guest, ± {:.1} µs", self.expected_s, self.bound_ns / 1e3),
            format!("{:.6} s, {:+.1} µs off", self.seen_s, self.error_ns / 1e3),
            self.error_ns.abs() <= self.bound_ns,
        )
    }
}

fn sample(machine: &Machine) -> Result<[ReadingPair; SOURCES.len()], MachineError> {
    let _pinned = on_own_cpus(machine)?;
    let [kvm_clock, tsc] = SOURCES.map(|source| tightest(machine, source, TRIES));
    Ok([kvm_clock?, tsc?])
}

/// How long KVM_GET_CLOCK takes where it does not say at which moment it read
/// the clock: before Linux 5.16, and on hosts whose clock is not TSC-based.
fn reading_ns(machine: &Machine) -> Result<u64, MachineError> {
    let mut longest = 0;
    for _ in 0..READS {
        let before = boot_ns();
        let clock = machine.kernel_clock()?;
        let took = boot_ns().saturating_sub(before);
        let both = KVM_CLOCK_REALTIME | KVM_CLOCK_HOST_TSC;
        longest = longest.max(if clock.flags & both == both { 0 } else { took });
    }
    Ok(longest)
}
