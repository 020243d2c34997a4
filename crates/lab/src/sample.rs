//! A guest's clock between two readings of the host's, and which clocks of
//! which machines are read.
//!
//! The guest reads at some moment between being asked and having answered:
//! both are readings of the host's clock, so nothing is assumed of the
//! guest's. A [`Pair`]'s counter is the guest's clock here, in ns.

use std::time::Duration;

use guest::discovery::Found;
use guest::request::{Outcome, Request};
use guest::source::Source;
use host::{Kind, Reading};
use instruments::rate::Pair;
use pvclock::{Hertz, Nanos, Ticks};
use vmm::{Machine, MachineError, host_clock};

use crate::bench::Maker;
use crate::results::{Check, Verdict};
use crate::settings::Settings;

/// The one vCPU that is asked.
pub(crate) const VCPU: usize = 0;

const NANOS_PER_SECOND: f64 = 1e9;

/// Readings of which the tightest counts.
const TRIES: u32 = 3;
const TRIES_MAX: u32 = 12;
/// Three exits, which the PIT takes, and the way there and back.
const UNDISTURBED_NS: u64 = 150_000;

/// The host's boot clock, which nothing steers.
pub(crate) fn boot_ns() -> u64 {
    host_clock::boot().0
}

/// Who makes clocks, by the providers asked for: the kernel's is kvm too.
pub(crate) fn makers(settings: &Settings) -> Vec<Maker> {
    let kernel = settings.providers.contains(&Kind::Kvm).then_some(Maker::Kernel);
    kernel.into_iter().chain(settings.providers.iter().copied().map(Maker::Own)).collect()
}

/// The clocks that were asked for and that this guest has.
pub(crate) fn sources(settings: &Settings, found: &Found) -> Vec<Source> {
    let wanted = |source| settings.sources.is_empty() || settings.sources.contains(&source);
    Source::ALL.into_iter().filter(|source| wanted(*source) && has(found, *source)).collect()
}

fn has(found: &Found, source: Source) -> bool {
    match source {
        Source::Tsc => found.tsc.0 > 0,
        Source::KvmClock => found.kvm_clock,
        Source::HyperVPage => found.hyperv_page,
        Source::HyperVCounter => found.hyperv_counter,
        Source::AcpiPm => found.pm_timer,
        Source::Hpet => found.hpet,
        Source::Pit => found.pit,
        Source::Rtc => found.rtc,
    }
}

/// The tightest of some readings of a clock by the host's boot clock: of
/// three, or of more while none was undisturbed.
///
/// # Errors
/// The guest's or the machine's.
pub(crate) fn tightest(machine: &Machine, source: Source) -> Result<Pair, MachineError> {
    let mut best = by_boot_clock(machine, source)?;
    for tried in 1..TRIES_MAX {
        if tried >= TRIES && width_ns(best) <= UNDISTURBED_NS {
            break;
        }
        let next = by_boot_clock(machine, source)?;
        if width_ns(next) < width_ns(best) {
            best = next;
        }
    }
    Ok(best)
}

fn by_boot_clock(machine: &Machine, source: Source) -> Result<Pair, MachineError> {
    let before_ns = boot_ns();
    let [_, guest_ns, ..] = machine.ask(VCPU, Request::Read(source))?;
    Ok(Pair { before_ns, tsc: guest_ns, after_ns: boot_ns() })
}

/// What `Read(Rtc)` was answered with, by the host's boot clock: the second
/// began between two readings of the guest's TSC, of this offset.
pub(crate) fn of_edge(answer: &guest::protocol::Words, tsc_offset: u64, rate: Hertz) -> Pair {
    let now = host_clock::read();
    let [before, guest_ns, after, ..] = *answer;
    let boot = |tsc: u64| at_tsc(now, Ticks(tsc.wrapping_sub(tsc_offset)), rate).boot.0;
    Pair { before_ns: boot(before), tsc: guest_ns, after_ns: boot(after) }
}

/// The host's clocks when its TSC, of this rate, is or was `tsc`: good for
/// moments near `now`, as far as the rate is.
pub(crate) fn at_tsc(now: Reading, tsc: Ticks, rate: Hertz) -> Reading {
    let cycles = tsc.0.wrapping_sub(now.tsc.0).cast_signed();
    let ns = nanos(cycles, rate);
    let moved = |time: Nanos| Nanos(time.0.wrapping_add_signed(ns));
    Reading { tsc, boot: moved(now.boot), real: units::UnixTime(moved(now.real.0)) }
}

/// So many cycles of a TSC of this rate in ns.
pub(crate) fn nanos(cycles: i64, rate: Hertz) -> i64 {
    (cycles as f64 / rate.0 as f64 * NANOS_PER_SECOND).round() as i64
}

pub(crate) fn width_ns(pair: Pair) -> u64 {
    pair.after_ns.saturating_sub(pair.before_ns)
}

/// The middle of the host's two readings, ns.
pub(crate) fn middle_ns(pair: Pair) -> f64 {
    pair.before_ns as f64 + width_ns(pair) as f64 / 2.0
}

/// The check of a figure that the machine did not give: a guest that declines
/// leaves it open, one that dies or talks nonsense has failed.
pub(crate) fn missed(name: String, bar: String, error: &MachineError) -> Check {
    let why = match error {
        MachineError::Declined { outcome: Outcome::WentRound, .. } => {
            "the counter may have gone round unseen: the vCPU was away too long".to_owned()
        }
        other => other.to_string(),
    };
    let verdict = match error {
        MachineError::Died { .. }
        | MachineError::Nonsense { .. }
        | MachineError::Flooded { .. } => Verdict::Failed,
        _ => Verdict::NotMeasured(why.clone()),
    };
    Check { name, bar, found: why, verdict }
}

/// Sleeps until the boot clock shows this.
pub(crate) fn sleep_until(boot: u64) {
    std::thread::sleep(Duration::from_nanos(boot.saturating_sub(boot_ns())));
}

#[cfg(test)]
mod tests {
    use pvclock::Nanos;
    use units::UnixTime;

    use super::*;

    #[test]
    fn the_host_s_clocks_move_with_its_tsc() {
        let now = Reading { tsc: Ticks(9000), boot: Nanos(1000), real: UnixTime(Nanos(70_000)) };
        let rate = Hertz(2_000_000_000);
        let before = at_tsc(now, Ticks(8000), rate);
        assert_eq!((before.boot, before.real), (Nanos(500), UnixTime(Nanos(69_500))));
        assert_eq!(at_tsc(now, Ticks(9100), rate).boot, Nanos(1050));
    }

    #[test]
    fn makers_follow_the_providers_asked_for() {
        let settings = Settings { providers: vec![Kind::HyperV], ..Settings::default() };
        assert_eq!(makers(&settings), [Maker::Own(Kind::HyperV)]);
        let settings = Settings { providers: vec![Kind::None, Kind::Kvm], ..settings };
        let expected = [Maker::Kernel, Maker::Own(Kind::None), Maker::Own(Kind::Kvm)];
        assert_eq!(makers(&settings), expected);
    }
}
