//! What a probe inside a guest reads: the sample that the shipped observer takes.

use facts::running::Activity;
use facts::{Fact, Sample};
use pvclock::units::Bracket;

use crate::kernel::SimulatedKernel;
use crate::machine::SimulatedMachine;

/// Time that a clock takes to be read, ns.
const READ_NS: u64 = 20;

/// Switches and interrupts of an idle guest, a second.
const SWITCHES_PER_S: u64 = 200;

/// What a probe reads beside the clocks.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ProbeCount {
    /// The time that the guest ran, ns.
    pub(crate) ran_ns: u64,
    /// Stolen from its CPU, ns.
    pub(crate) stolen_ns: u64,
    /// The host's time of day, s: what an emulated RTC shows.
    pub(crate) rtc_s: u64,
}

/// A sample of the clocks as they were advanced to.
pub(crate) fn sample(
    kernel: &mut SimulatedKernel,
    machine: &SimulatedMachine,
    tsc: u64,
    counted: ProbeCount,
) -> Sample {
    let clocks = kernel.clocks();
    let ns = |ns: i128| u64::try_from(ns).unwrap_or(0);
    let (realtime, monotonic) = (ns(clocks.realtime), ns(clocks.monotonic));
    let (raw, boottime) = (ns(clocks.raw), ns(clocks.boottime));
    let within = |outer: u64, inner: u64| Bracket {
        before: outer,
        inner: inner + READ_NS,
        after: outer + 2 * READ_NS,
    };
    let cycles = READ_NS * machine.advertised_khz() / 1_000_000;
    let activity = Activity {
        stolen: vec![facts::running::Stolen {
            cpu: 0,
            stolen_ns: counted.stolen_ns / 10_000_000 * 10_000_000,
        }],
        context_switches: counted.ran_ns / 1_000_000 * SWITCHES_PER_S / 1000,
        interrupts: counted.ran_ns / 1_000_000 * SWITCHES_PER_S / 1000,
    };
    let is_page = kernel.source() == "kvm-clock";
    Sample {
        unix_ns: Some(realtime),
        tsc: Some(tsc),
        cpu: Some(0),
        realtime: Some(within(monotonic, realtime)),
        boottime: Some(within(monotonic, boottime)),
        monotonic: Some(within(raw, monotonic)),
        raw: Some(Bracket { before: tsc, inner: raw + READ_NS, after: tsc + 2 * cycles + 2 }),
        source: Fact::Known(kernel.source().to_owned()),
        source_step_ns: Some(if is_page { 2.0 } else { 1.0 }),
        adjtimex: kernel.steering(),
        page: machine
            .page_info()
            .map_or_else(|| Fact::Unknown(facts::Unknown::not_applicable("no page")), Fact::Known),
        vmclock: machine.told.as_ref().map_or_else(
            || Fact::Unknown(facts::Unknown::not_applicable("no page")),
            |told| Fact::Known(told.snapshot()),
        ),
        rtc: Fact::Known(Some(Bracket { before: boottime, inner: counted.rtc_s, after: boottime })),
        activity: Fact::Known(Some(activity)),
        was_set: Fact::Known(kernel.take_was_set()),
        ..Sample::new(monotonic)
    }
}
