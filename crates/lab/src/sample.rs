//! Samples of a guest's clock between two readings of the host's, and which
//! clocks of which machines are sampled.
//!
//! The guest reads at some moment between request and reply. Both are stamped
//! with the host's clock, so nothing is assumed of the guest's. In a [`ReadingPair`]
//! the counter is the guest's clock, in ns.

use std::ops::Range;
use std::time::Duration;

use guest::discovery::Discovery;
use guest::request::{GuestRequest, RequestOutcome};
use guest::source::Source;
use host::{ClockProvider, HostClocks};
use instruments::rate::ReadingPair;
use linux::cpus::{self, Pinned};
use pvclock::{Hertz, Nanos, Ticks};
use vmm::{Machine, MachineError, host_clock};

use crate::bench::Provider;
use crate::results::{Check, Verdict};
use crate::settings::{LabError, Settings};

/// The vCPU that is sampled.
pub(crate) const VCPU: usize = 0;

const NANOS_PER_SECOND: f64 = 1e9;

/// Readings of which the tightest is used, where each may exit.
pub(crate) const TRIES: Range<u32> = 3..12;
/// A reading that exits, and the round trip.
const UNDISTURBED_NS: u64 = 150_000;

/// The host's CLOCK_BOOTTIME, ns.
pub(crate) fn boot_ns() -> u64 {
    host_clock::boot().0
}

/// The providers for the chosen providers: kvm includes the kernel's clock.
pub(crate) fn providers(settings: &Settings) -> Vec<Provider> {
    let kernel = settings.providers.contains(&ClockProvider::Kvm).then_some(Provider::Kernel);
    kernel.into_iter().chain(settings.providers.iter().copied().map(Provider::Own)).collect()
}

/// The chosen clocks that this guest has.
pub(crate) fn sources(settings: &Settings, found: &Discovery) -> Vec<Source> {
    let chosen = |source| settings.sources.is_empty() || settings.sources.contains(&source);
    Source::ALL.into_iter().filter(|source| chosen(*source) && found.has(*source)).collect()
}

/// The tightest of some readings of a clock: of the fewest of `tries`, or of up to the most while all
/// were disturbed.
pub(crate) fn tightest(
    machine: &Machine,
    source: Source,
    tries: Range<u32>,
) -> Result<ReadingPair, MachineError> {
    let mut best = by_boot_clock(machine, source)?;
    for tried in 1..tries.end {
        if tried >= tries.start && width_ns(best) <= UNDISTURBED_NS {
            break;
        }
        let next = by_boot_clock(machine, source)?;
        if width_ns(next) < width_ns(best) {
            best = next;
        }
    }
    Ok(best)
}

/// Pins this thread and the vCPU to one CPU each, if there are two: on one CPU
/// the guest runs only while this thread does not, and every reading is as wide
/// as a time slice.
pub(crate) fn on_own_cpus(machine: &Machine) -> Result<Option<Pinned>, MachineError> {
    let allowed = cpus::allowed().unwrap_or_default();
    let [ours, theirs, ..] = allowed[..] else { return Ok(None) };
    machine.move_vcpu(VCPU, theirs)?;
    // If pinning fails, readings may be wider.
    Ok(cpus::pin(ours).ok())
}

fn by_boot_clock(machine: &Machine, source: Source) -> Result<ReadingPair, MachineError> {
    let before_ns = boot_ns();
    let [_, guest_ns, ..] = machine.request(VCPU, GuestRequest::Read(source))?;
    Ok(ReadingPair { before_ns, tsc: guest_ns, after_ns: boot_ns() })
}

/// The reply to `Read(Rtc)` in the host's CLOCK_BOOTTIME: the second began
/// between two readings of the guest's TSC, which has this offset.
pub(crate) fn of_edge(reply: &guest::protocol::Words, tsc_offset: u64, rate: Hertz) -> ReadingPair {
    let now = host_clock::read();
    let [before, guest_ns, after, ..] = *reply;
    let boot = |tsc: u64| at_tsc(now, Ticks(tsc.wrapping_sub(tsc_offset)), rate).boot.0;
    ReadingPair { before_ns: boot(before), tsc: guest_ns, after_ns: boot(after) }
}

/// The host's clocks at the host TSC `tsc`, extrapolated from `now` at this
/// rate.
pub(crate) fn at_tsc(now: HostClocks, tsc: Ticks, rate: Hertz) -> HostClocks {
    let cycles = tsc.0.wrapping_sub(now.tsc.0).cast_signed();
    let ns = nanos(cycles, rate);
    let moved = |time: Nanos| Nanos(time.0.wrapping_add_signed(ns));
    HostClocks::new(tsc, moved(now.boot), pvclock::units::UnixTime(moved(now.real.0)))
}

/// Cycles of a TSC of this rate, in ns.
pub(crate) fn nanos(cycles: i64, rate: Hertz) -> i64 {
    (cycles as f64 / rate.0 as f64 * NANOS_PER_SECOND).round() as i64
}

pub(crate) fn width_ns(pair: ReadingPair) -> u64 {
    pair.after_ns.saturating_sub(pair.before_ns)
}

/// The middle of the host's two readings, ns.
pub(crate) fn middle_ns(pair: ReadingPair) -> f64 {
    pair.before_ns as f64 + width_ns(pair) as f64 / 2.0
}

/// The check of a clock that could not be read: not measured if the guest
/// declines, failed if it dies or breaks the protocol.
pub(crate) fn not_read(name: String, expected: String, error: &MachineError) -> Check {
    let why = match error {
        MachineError::Declined { outcome: RequestOutcome::WentRound, .. } => {
            "the vCPU did not run for too long, and its counter may have wrapped meanwhile"
                .to_owned()
        }
        other => other.to_string(),
    };
    let verdict = match error {
        MachineError::GuestFailed { .. }
        | MachineError::InvalidReply { .. }
        | MachineError::Flooded { .. } => Verdict::Failed,
        _ => Verdict::NotMeasured(why.clone()),
    };
    Check { name, expected, found: why, verdict }
}

/// The check of a part that could not be run, as [`not_read`]: the other parts
/// of its experiment go on.
pub(crate) fn not_run(name: String, expected: String, error: &LabError) -> Check {
    match error {
        LabError::Machine(error) => not_read(name, expected, error),
        other => Check::not_measured(name, expected, other.to_string()),
    }
}

/// Sleeps until CLOCK_BOOTTIME reaches `boot`, ns.
pub(crate) fn sleep_until(boot: u64) {
    std::thread::sleep(Duration::from_nanos(boot.saturating_sub(boot_ns())));
}

#[cfg(test)]
mod tests {
    use pvclock::Nanos;
    use pvclock::units::UnixTime;

    use super::*;

    #[test]
    fn the_host_s_clocks_move_with_its_tsc() {
        let now = HostClocks::new(Ticks(9000), Nanos(1000), UnixTime(Nanos(70_000)));
        let rate = Hertz(2_000_000_000);
        let before = at_tsc(now, Ticks(8000), rate);
        assert_eq!((before.boot, before.real), (Nanos(500), UnixTime(Nanos(69_500))));
        assert_eq!(at_tsc(now, Ticks(9100), rate).boot, Nanos(1050));
    }

    #[test]
    fn makers_follow_the_chosen_providers() {
        let settings = Settings { providers: vec![ClockProvider::HyperV], ..Settings::default() };
        assert_eq!(providers(&settings), [Provider::Own(ClockProvider::HyperV)]);
        let settings =
            Settings { providers: vec![ClockProvider::None, ClockProvider::Kvm], ..settings };
        let expected = [
            Provider::Kernel,
            Provider::Own(ClockProvider::None),
            Provider::Own(ClockProvider::Kvm),
        ];
        assert_eq!(providers(&settings), expected);
    }
}
