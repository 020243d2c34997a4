//! kvm-clock: its CPUID, MSRs and pages.

use std::time::{Duration, Instant};

use guest::layout::GuestPages;
use guest::request::GuestRequest;
use guest::source::Source;
use host::msr::{
    KVM_STEAL_TIME, KVM_SYSTEM_TIME, KVM_SYSTEM_TIME_OLD, KVM_WALL_CLOCK, KVM_WALL_CLOCK_OLD,
};
use host::pages::{TimePage, WallClockPage};
use host::{HostEvent, VcpuId};
use kvm_bindings::KVM_CLOCK_TSC_STABLE;
use pvclock::kvm_clock::{Flags, TimeReader, WallClockReader};
use pvclock::{Nanos, Scale, Ticks};
use vmm::host_clock;

use super::subject::ConformanceSubject;
use crate::results::Verdict;
use crate::settings::Result;
use crate::tsc_offsets::why_per_vcpu;

/// CPUID's features: both sets of MSRs, and steal time.
const FEATURES: u32 = 1 | 1 << 3 | 1 << 5;
/// KVM halves the frequency in integers before it divides (kvm_get_time_scale,
/// arch/x86/kvm/x86.c): up to 1 ppb fast above 2 GHz. Ours must be right to the last bit.
const KERNEL_SCALE_PPB: f64 = 1.0;
/// What CPUID's bits promise by MSRs (Documentation/virt/kvm/x86/cpuid.rst).
const SERVED: [(u32, &[u32]); 8] = [
    (0, &[KVM_WALL_CLOCK_OLD, KVM_SYSTEM_TIME_OLD]),
    (3, &[KVM_WALL_CLOCK, KVM_SYSTEM_TIME]),
    (4, &[0x4b56_4d02]),
    (5, &[KVM_STEAL_TIME]),
    (6, &[0x4b56_4d04]),
    (12, &[0x4b56_4d05]),
    (14, &[0x4b56_4d06, 0x4b56_4d07]),
    (17, &[0x4b56_4d08]),
];
/// How long a page is rewritten at most while its version is watched, and how many of its
/// versions must be seen to miss an odd one: fewer of them show that the watcher did not run beside the writer.
const WATCHED: Duration = Duration::from_secs(1);
const VERSIONS_MIN: u64 = 1_000;
/// Reads between two events.
const READS_A_ROUND: u64 = 100;
/// Time between two comparisons of page and host.
const BETWEEN: Duration = Duration::from_nanos(1_000_003);
/// How often a check that has no natural number of rounds repeats.
const ROUNDS: u64 = 20;
/// How much CLOCK_REALTIME and the guest's clock may differ in rate over a check, ns: 500 ppm of
/// the readings, of which the one with the narrowest span counts. kvmclock_test allows 5 s.
const REALTIME_NS: u64 = 20_000;
const REALTIME_READINGS: u32 = 100;

pub(super) fn announcement(subject: &ConformanceSubject<'_>) -> Result {
    subject.equal("signature", "KVMKVMKVM", &subject.signature()?);
    let [features, ..] = subject.cpuid(0x4000_0001)?;
    subject.holds(
        "features",
        &format!("{FEATURES:#x}: clocksource by both sets of MSRs, steal time"),
        format!("{features:#x}"),
        features & FEATURES == FEATURES,
    );
    let mut missing = Vec::new();
    for (bit, msrs) in SERVED {
        for &msr in msrs.iter().filter(|_| features & 1 << bit != 0) {
            if subject.refuses(GuestRequest::ReadMsr { msr })? {
                missing.push(format!("bit {bit}: MSR {msr:#x} refused"));
            }
        }
    }
    let found = if missing.is_empty() { "all readable".to_owned() } else { missing.join(", ") };
    let is_served = missing.is_empty();
    subject.holds("features announced", "each has its MSRs", found, is_served);
    Ok(())
}

/// The scale of a frequency to its last bit: 10^9 · 2^(32 − shift) / Hz, rounded down.
fn is_exact(scale: Scale, hz: u64) -> bool {
    let due = (1_000_000_000_u128 << (32 - scale.shift()).clamp(0, 64)) / u128::from(hz.max(1));
    u128::from(scale.mul()) == due
}

pub(super) fn page(subject: &ConformanceSubject<'_>) -> Result {
    let advertised_hz = subject.advertised_hz();
    for vcpu in 0..subject.machine.vcpus() {
        let info = subject.time_info(vcpu)?;
        let name = format!("vCPU {vcpu}'s page");
        let version = info.version;
        let is_complete = version != 0 && version.is_multiple_of(2);
        let found = format!("version {version}");
        subject.holds(&name, "version even and not 0", found, is_complete);
        let page_hz = info.scale.to_hertz().map_or(0, |rate| rate.0);
        let error_ppb = (page_hz as f64 / advertised_hz as f64 - 1.0) * 1e9;
        subject.holds(
            &format!("{name}: scale"),
            &if subject.is_own() {
                format!("that of {advertised_hz} Hz, to the last bit")
            } else {
                format!("{advertised_hz} Hz, ± {KERNEL_SCALE_PPB} ppb")
            },
            format!("{page_hz} Hz, error {error_ppb:.3} ppb, multiplier {:#x}", info.scale.mul()),
            if subject.is_own() {
                is_exact(info.scale, advertised_hz)
            } else {
                error_ppb.abs() <= KERNEL_SCALE_PPB
            },
        );
    }
    // What our provider itself says of its master clock excuses no page without the flag.
    let of_host = if subject.is_own() {
        why_per_vcpu(&subject.machine)?.is_none()
    } else {
        subject.machine.kernel_clock()?.flags & KVM_CLOCK_TSC_STABLE != 0
    };
    let of_page = subject.time_info(0)?.flags.contains(Flags::TSC_STABLE);
    subject.holds(
        "TSC_STABLE",
        "set in the page if the host has a master clock",
        format!("set in the page: {of_page}; master clock on the host: {of_host}"),
        of_page == of_host,
    );
    Ok(())
}

/// A page that is rewritten again and again, watched from another CPU: what it holds in
/// between must not be taken for whole.
pub(super) fn odd_while_written(subject: &ConformanceSubject<'_>) -> Result {
    if !subject.is_own() {
        // Only our host rewrites a page as often as we like.
        return Ok(());
    }
    let (name, expected) = ("version while its page is written", "odd");
    let counted = subject.machine.with_clock_exclusive(|clock, now, ram| {
        std::thread::scope(|scope| {
            let watcher = scope.spawn(|| {
                let (mut versions, mut odd, mut last) = (0_u64, 0_u64, 0);
                let until = Instant::now() + WATCHED;
                while versions < VERSIONS_MIN && Instant::now() < until {
                    let version = ram.word(GuestPages::time_address(0)).unwrap_or(0);
                    if version != last {
                        (versions, odd) =
                            (versions + 1, odd + u64::from(!version.is_multiple_of(2)));
                        last = version;
                    }
                }
                (versions, odd)
            });
            while !watcher.is_finished() {
                let time = clock.time(VcpuId(0), now);
                clock.handle(HostEvent::ClockSet { clock: time }, now, ram);
                clock.before_entry(VcpuId(0), now, ram);
            }
            watcher.join().unwrap_or((0, 0))
        })
    });
    let (versions, odd) = counted.unwrap_or((0, 0));
    let found = format!("{odd} odd ones of {versions} versions seen");
    if odd == 0 && versions < VERSIONS_MIN {
        subject.not_measured(name, expected, &format!("{found}: this host has no CPU to spare"));
    } else {
        subject.holds(name, expected, found, odd > 0);
    }
    subject.reenter_all()
}

/// The page's time and our provider's, at one TSC.
pub(super) fn page_against_host(subject: &ConformanceSubject<'_>) -> Result {
    if !subject.is_own() {
        // `offset` and `agreement` compare the kernel's.
        return Ok(());
    }
    let mut worst_ns = 0;
    for _ in 0..ROUNDS {
        std::thread::sleep(BETWEEN);
        subject.reenter(0)?;
        let difference = subject.machine.with_clock_exclusive(|clock, now, _| {
            let page: &TimePage = subject.page(GuestPages::time_address(0));
            let tsc = now.tsc.0.wrapping_add(clock.tsc_offset(VcpuId(0)).unwrap_or(0));
            let by_page = TimeReader::new(page).nanos_at(Ticks(tsc)).ok()?;
            Some(by_page.0.abs_diff(clock.time(VcpuId(0), now).0))
        });
        worst_ns = worst_ns.max(difference.flatten().unwrap_or(u64::MAX));
    }
    subject.holds(
        "page against host",
        "no difference at the same TSC",
        format!("at most {worst_ns} ns in {ROUNDS} comparisons"),
        worst_ns == 0,
    );
    Ok(())
}

pub(super) fn register(subject: &ConformanceSubject<'_>) -> Result {
    subject.reads_back("system time MSR", KVM_SYSTEM_TIME, GuestPages::time_address(0) | 1)
}

pub(super) fn wall_clock(subject: &ConformanceSubject<'_>) -> Result {
    let page: &WallClockPage = subject.page(GuestPages::wall_clock_address());
    let read = || WallClockReader::new(page).read();
    subject.write_msr(KVM_WALL_CLOCK, GuestPages::wall_clock_address())?;
    let Ok(wall) = read() else {
        subject.holds("wall clock", "written when its MSR is written", "not written", false);
        return Ok(());
    };
    let mut narrowest = [0, i64::MAX];
    for _ in 0..REALTIME_READINGS {
        let before = host_clock::read().real.0.0;
        let now = wall.plus(Nanos(subject.read(0, Source::KvmClock)?.time_ns)).0;
        let after = host_clock::read().real.0.0;
        let around = [now.wrapping_sub(before), after.wrapping_sub(now)].map(u64::cast_signed);
        if around[0].saturating_add(around[1]) < narrowest[0].saturating_add(narrowest[1]) {
            narrowest = around;
        }
    }
    let [since_before, until_after] = narrowest;
    let tolerance = REALTIME_NS;
    let holds = since_before.min(until_after) >= -tolerance.cast_signed();
    let verdict = if subject.is_own() { subject.by_tsc(holds)? } else { Verdict::judge(holds) };
    subject.record(
        "wall clock plus system time",
        &format!("between the host's CLOCK_REALTIME before and after, ± {} µs", tolerance / 1000),
        format!("{since_before} ns after the first reading, {until_after} ns before the second"),
        verdict,
    );
    subject.write_msr(KVM_SYSTEM_TIME, GuestPages::time_address(0) | 1)?;
    subject.reenter_all()?;
    let later = read();
    let found = if later == Ok(wall) { "unchanged" } else { "changed" };
    subject.equal("wall clock after writes to other MSRs", "unchanged", found);
    Ok(())
}

pub(super) fn guest_stopped(subject: &ConformanceSubject<'_>) -> Result {
    subject.machine.pause()?;
    subject.machine.resume()?;
    let mut taken = Vec::new();
    for vcpu in 0..subject.machine.vcpus() {
        // The page is written at the entry for the first request, or before.
        let mut seen = [0; 3];
        for seen in &mut seen {
            [*seen, ..] = subject.machine.request(vcpu, GuestRequest::TakeGuestStopped)?;
        }
        taken.push(seen);
    }
    subject.holds(
        "GUEST_STOPPED after a pause",
        "each vCPU sees it once",
        format!("flag at three reads, by vCPU: {taken:?}"),
        taken.iter().all(|seen| *seen == [1, 0, 0]),
    );
    Ok(())
}

/// Events that make the host write new pages, and a guest that reads on.
pub(super) fn monotonic_through_updates(subject: &ConformanceSubject<'_>) -> Result {
    if !subject.is_own() {
        // `updates` causes what the kernel lets us cause.
        return Ok(());
    }
    let (mut last, mut backward) = (0, 0);
    for round in 0..ROUNDS {
        let event = match round % 4 {
            0 => HostEvent::VcpuMoved { vcpu: VcpuId(0), physical_cpu: round as u32 },
            1 => HostEvent::HostResumed,
            2 => HostEvent::HostClocksource { is_tsc: round % 8 == 2 },
            _ => HostEvent::Resumed,
        };
        if event == HostEvent::Resumed {
            // Without it there is nothing to resume.
            subject.machine.notify(HostEvent::Paused);
        }
        subject.machine.notify(event);
        for _ in 0..READS_A_ROUND {
            let time = subject.read(0, Source::KvmClock)?.time_ns;
            backward += u64::from(time < last);
            last = time;
        }
    }
    subject.machine.notify(HostEvent::HostClocksource { is_tsc: true });
    for vcpu in 0..subject.machine.vcpus() {
        // These events set it too.
        subject.machine.request(vcpu, GuestRequest::TakeGuestStopped)?;
    }
    subject.record(
        "readings during updates",
        "never backward",
        format!("{backward} of {} readings backward", ROUNDS * READS_A_ROUND),
        subject.by_tsc(backward == 0)?,
    );
    Ok(())
}
