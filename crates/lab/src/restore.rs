//! What a guest sees of being saved and restored.

use guest::request::Request;
use guest::source::Source;
use host::{Kind, Policy};
use vmm::{Machine, MachineError, RestoredClock, host_clock};

use crate::bench::{Bench, Provider};
use crate::results::{Check, Findings, Restore, Verdict};
use crate::run::Found;
use crate::settings::{LabError, Progress};

const SOURCES: [Source; 2] = [Source::KvmClock, Source::Tsc];
const POLICIES: [Policy; 2] = [Policy::Advance, Policy::Freeze];
const PROVIDERS: [Provider; 2] = [Provider::Kernel, Provider::Own(Kind::Kvm)];

/// Between the last reading before and the first after, the machine is dropped
/// and created again: a few ms, more on a busy host.
const TOLERANCE_S: f64 = 0.1;

/// How often GUEST_STOPPED is read: it must be set once.
const READS: u32 = 3;

/// A guest's clocks and the host's at one moment, in s.
#[derive(Debug, Clone, Copy)]
struct ClockSample {
    host_s: f64,
    guest_s: [f64; SOURCES.len()],
}

pub(crate) fn run(bench: &Bench<'_>, progress: &mut dyn Progress) -> Result<Found, LabError> {
    let (mut rows, mut checks) = (Vec::new(), Vec::new());
    let runs = PROVIDERS.iter().flat_map(|provider| POLICIES.map(|policy| (*provider, policy)));
    let count = PROVIDERS.len() * POLICIES.len();
    for (index, (provider, policy)) in runs.enumerate() {
        let what = format!("{}, {}", provider.label(), name(policy));
        progress.step(&what, index as f64 / count as f64);
        one(bench, provider, policy, &mut rows, &mut checks)?;
    }
    Ok((Findings::Restore(rows), checks))
}

fn one(
    bench: &Bench<'_>,
    provider: Provider,
    policy: Policy,
    rows: &mut Vec<Restore>,
    checks: &mut Vec<Check>,
) -> Result<(), LabError> {
    let machine = bench.start(provider, 1)?;
    let before = sample(&machine)?;
    let saved = machine.save()?;
    let stopped_s = host_s();
    drop(machine);
    std::thread::sleep(bench.settings.downtime);
    let resumed_s = host_s();
    let (machine, clock) = Machine::restore(&saved, policy)?;
    let mut guest_stopped = 0;
    for _ in 0..READS {
        let [set, ..] = machine.request(0, Request::TakeGuestStopped)?;
        guest_stopped += u32::from(set != 0);
    }
    let after = sample(&machine)?;
    let title = format!("{}, {}", provider.label(), name(policy));
    checks.push(Check {
        name: format!("{title}: GUEST_STOPPED"),
        expected: "seen exactly once".into(),
        found: format!("{guest_stopped} of {READS} reads"),
        verdict: Verdict::of(guest_stopped == 1),
    });
    let passed_s = after.host_s - before.host_s;
    for (index, source) in SOURCES.into_iter().enumerate() {
        let row = Restore {
            backend: provider.backend(),
            policy: name(policy).into(),
            source: source.name().into(),
            downtime_s: resumed_s - stopped_s,
            seen_s: after.guest_s[index] - before.guest_s[index],
            expected_s: match policy {
                Policy::Advance => passed_s,
                Policy::Freeze => passed_s - (resumed_s - stopped_s),
            },
            guest_stopped,
        };
        checks.push(check(&title, &row, source, &clock));
        rows.push(row);
    }
    Ok(())
}

fn check(title: &str, row: &Restore, source: Source, clock: &RestoredClock) -> Check {
    let error_s = row.seen_s - row.expected_s;
    let ignored = clock.tscs.iter().find(|tsc| tsc.offset != tsc.wanted);
    let verdict = match ignored {
        Some(tsc) if source == Source::Tsc && error_s.abs() > TOLERANCE_S => {
            Verdict::NotMeasured(format!(
                "this KVM ignores a TSC offset: {} was set, {} is in use",
                tsc.wanted.cast_signed(),
                tsc.offset.cast_signed()
            ))
        }
        _ => Verdict::of(error_s.abs() <= TOLERANCE_S),
    };
    Check {
        name: format!("{title}: {}", row.source),
        expected: format!("{:.3} s pass in the guest, ± {TOLERANCE_S} s", row.expected_s),
        found: format!("{:.3} s", row.seen_s),
        verdict,
    }
}

fn sample(machine: &Machine) -> Result<ClockSample, MachineError> {
    let mut guest_s = [0.0; SOURCES.len()];
    let before = host_s();
    for (guest_s, source) in guest_s.iter_mut().zip(SOURCES) {
        let [_, nanos, ..] = machine.request(0, Request::Read(source))?;
        *guest_s = nanos as f64 / 1e9;
    }
    Ok(ClockSample { host_s: f64::midpoint(before, host_s()), guest_s })
}

fn host_s() -> f64 {
    host_clock::read().boot.0 as f64 / 1e9
}

fn name(policy: Policy) -> &'static str {
    match policy {
        Policy::Advance => "advance",
        Policy::Freeze => "freeze",
    }
}
