//! A guest that runs is saved and ends; it is restored twice by one policy, and by the others,
//! as of a host of another rate too. What each clock did is held against the host's own.

use std::thread;
use std::time::{Duration, Instant};

use host::{ClockProvider, RestorePolicy};
use vmm::{Machine, SavedMachine};

use crate::arrived::{Arrival, ArrivalHost, arrive};
use crate::boot::LOOK;
use crate::expected::PAGE_PPM;
use crate::host_line::{HostLine, PlacedReading, signed};
use crate::report::{Line, TIMERS, find};
use crate::{Check, Provider, join};

/// How long the guest's clocks are watched before they are saved.
const WATCHED: Duration = Duration::from_secs(3);
/// How long it may take until it has reported them.
const LIMIT: Duration = Duration::from_secs(60);
/// The clocks of a guest and its host, read by programs, ns.
const CLOCK_NS: f64 = 1_000.0;
/// A timer fires as soon as the guest runs; its host may be an emulated one.
const LATE_S: f64 = 2.0;
/// Beyond what KVM takes for the same rate.
const OTHER_PPM: i32 = 1_000;
/// KVM_CAP_TSC_CONTROL (Linux: include/uapi/linux/kvm.h).
const TSC_CONTROL: std::ffi::c_ulong = 60;

/// Whether it was restored before, by which policy, from a host told to be faster
/// by so many ppm.
type Way = (&'static str, RestorePolicy, i32);
const WAYS: [Way; 7] = [
    ("restored", RestorePolicy::Advance, 0),
    ("restored again", RestorePolicy::Advance, 0),
    ("restored", RestorePolicy::Freeze, 0),
    ("restored", RestorePolicy::Sleep, 0),
    ("restored", RestorePolicy::Hold, 0),
    ("restored", RestorePolicy::Advance, 100),
    ("restored", RestorePolicy::Advance, OTHER_PPM),
];

/// The guest as it was.
struct BeforeMove {
    stamps: Vec<PlacedReading>,
    saved: SavedMachine,
}

/// Saves the guest of `machine`, and restores it by all ways.
pub(crate) fn run(provider: Provider, machine: Machine, away: Duration) -> Vec<Check> {
    let label = provider.label();
    let before = match save(&machine) {
        Ok(before) => before,
        Err(why) => return vec![Check::new(format!("{label}: saved"), why, false)],
    };
    drop(machine);
    thread::sleep(away);
    let mut checks = Vec::new();
    for (name, policy, told_ppm) in ways(provider) {
        let told = if told_ppm == 0 { String::new() } else { format!(", stated {told_ppm:+} ppm") };
        let title = format!("{label}: {name}{told}, {}", policy.name());
        let judged = match arrive(&before.stamps, &before.saved, policy, told_ppm) {
            Ok(arrival) => judge(&before.stamps, &arrival, policy).into(),
            Err(why) => vec![check_refusal(provider, told_ppm, kvm_scales(), why)],
        };
        checks.extend(judged.into_iter().map(|check| check.prefix(&title)));
    }
    checks
}

/// The ways for a guest of `provider`: Hyper-V's guests are interrupted where the rate is another.
fn ways(provider: Provider) -> Vec<Way> {
    let is_hyperv = provider == Provider::Own(ClockProvider::HyperV);
    let can_be = |(_, _, told_ppm): &&Way| !(is_hyperv && *told_ppm == OTHER_PPM);
    WAYS.iter().filter(can_be).copied().collect()
}

fn save(machine: &Machine) -> Result<BeforeMove, String> {
    let words = |error: &dyn ToString| error.to_string();
    let (mut line, mut serial, started) = (HostLine::default(), String::new(), Instant::now());
    let tsc_offset = machine.tsc_offset(0).map_err(|error| words(&error))?;
    let last = |line: &HostLine, serial: &str| {
        find(serial).iter().rev().find_map(|found| match found {
            Line::Tick(tick) => line.place_all(tick, tsc_offset),
            Line::Booted(_) => None,
        })
    };
    // In a slow guest a tick may take seconds.
    while started.elapsed() < WATCHED || last(&line, &serial).is_none() && started.elapsed() < LIMIT
    {
        line.read();
        thread::sleep(LOOK);
        serial.push_str(&String::from_utf8_lossy(&machine.serial()));
        line.read();
    }
    // What the guest sends last is not read by all that restore it.
    machine.pause().map_err(|error| words(&error))?;
    serial.push_str(&String::from_utf8_lossy(&machine.serial()));
    line.read();
    let saved = machine.save().map_err(|error| words(&error))?;
    let stamps = last(&line, &serial).ok_or("the guest reported no clocks before the save")?;
    Ok(BeforeMove { stamps, saved })
}

/// KVM's own word, and not that of the refusal which is judged: where it gives none, nothing is
/// excused.
fn kvm_scales() -> bool {
    !vmm::kvm::open().is_ok_and(|kvm| kvm.check_extension_raw(TSC_CONTROL) == 0)
}

/// Only a host that does not scale may refuse another rate, where the clock is KVM's.
fn check_refusal(provider: Provider, told_ppm: i32, kvm_scales: bool, why: String) -> Check {
    let is_right = told_ppm == OTHER_PPM
        && provider == Provider::Kernel
        && !kvm_scales
        && why.contains("KVM does not scale here");
    Check::new("restored, or refused where KVM does not scale the TSC", why, is_right)
}

/// Each clock did what the policy says:
///
/// ```text
/// passed   = after − before − (taken − read before) − (read after − since)
/// expected = real time of since − of taken          advance, from 5 s away: 5 s
///            the host's clock that nothing steers   hold
///            since − when the restore began         freeze, sleep: some ms
/// ```
fn judge(before: &[PlacedReading], arrival: &Arrival, policy: RestorePolicy) -> [Check; 3] {
    let Arrival { taken, began, since, .. } = *arrival;
    let span = |from: fn(&ArrivalHost) -> u64, a: ArrivalHost| signed(from(&since), from(&a));
    let expected_ns = match policy {
        RestorePolicy::Advance => span(|at| at.real_ns, taken),
        RestorePolicy::Hold => span(|at| at.boot_ns, taken),
        _ => span(|at| at.boot_ns, began),
    };
    let complaints = &arrival.complaints;
    [
        clocks(before, arrival, expected_ns),
        timers(before, arrival, expected_ns),
        Check::new(
            "kernel's log after the restore: no complaint about clocks or lockups",
            join(complaints),
            complaints.is_empty(),
        ),
    ]
}

/// What each clock did while it was away, without what it ran before and after.
fn clocks(before: &[PlacedReading], arrival: &Arrival, expected_ns: f64) -> Check {
    let Arrival { taken, since, .. } = arrival;
    let (mut found, mut passed) = (Vec::new(), arrival.stamps.len() == 4);
    for (before, after) in before.iter().zip(&arrival.stamps) {
        let ran_ns = signed(taken.boot_ns, before.boot_ns) + signed(after.boot_ns, since.boot_ns);
        let error_ns = signed(after.ns, before.ns) - ran_ns - expected_ns;
        let read_ns = before.bound_ns + after.bound_ns + CLOCK_NS;
        let bound_ns = arrival.bound_ns as f64 + read_ns + PAGE_PPM * ran_ns / 1e6;
        found.push(format!("{} {error_ns:+.0} ns, ± {bound_ns:.0} ns", before.clock));
        passed &= error_ns.abs() <= bound_ns;
    }
    Check::new(format!("clocks: {:.6} s pass", expected_ns / 1e9), join(&found), passed)
}

/// How late the first firing of each timer since was, and how far its clock had gone past it when
/// it was restored.
fn timers(before: &[PlacedReading], arrival: &Arrival, expected_ns: f64) -> Check {
    let early_s = (CLOCK_NS + arrival.bound_ns as f64) / 1e9;
    let (mut found, mut passed) = (Vec::new(), arrival.fired.len() == TIMERS.len());
    for fired in &arrival.fired {
        let Some(before) = before.iter().find(|one| one.clock == fired.clock) else {
            passed = false;
            continue;
        };
        let resumed_ns = signed(arrival.taken.boot_ns, before.boot_ns) + expected_ns;
        let owed_s = (resumed_ns - signed(fired.due_ns, before.ns)).max(0.0) / 1e9;
        let late_s = signed(fired.at_ns, fired.due_ns) / 1e9;
        found.push(format!("{} {late_s:.3} s late, {owed_s:.3} s expected", fired.clock));
        passed &= late_s >= 0.0 && (-early_s..LATE_S).contains(&(late_s - owed_s));
    }
    let what = format!("timers: each fires within {LATE_S} s of the restore, and none early");
    Check::new(what, join(&found), passed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_right_only_where_kvm_itself_does_not_scale() {
        let why = || "KVM does not scale here: a TSC of 2 GHz".to_owned();
        let right = |ppm, scales, why| check_refusal(Provider::Kernel, ppm, scales, why).passed;
        assert!(right(OTHER_PPM, false, why()));
        assert!(!right(OTHER_PPM, true, why()) && !right(100, false, why()));
        assert!(!right(OTHER_PPM, false, "0 timers fired in 60s".to_owned()));
    }

    #[test]
    fn nobody_is_asked_for_what_cannot_be() {
        let rates = |provider| -> Vec<i32> {
            ways(provider).into_iter().map(|(.., told_ppm)| told_ppm).collect()
        };
        assert_eq!(rates(Provider::Kernel)[5..], [100, OTHER_PPM]);
        assert_eq!(rates(Provider::Own(ClockProvider::HyperV))[5..], [100]);
    }
}
