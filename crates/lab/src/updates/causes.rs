//! How each event is caused.

use std::time::Instant;

use facts::kernel::version::KernelVersion;
use guest::layout::GuestPages;
use guest::request::GuestRequest;
use host::{HostEvent, RestorePolicy, VcpuId};
use kvm_bindings::kvm_clock_data;
use pvclock::kvm_clock::Flags;
use pvclock::{Hertz, Nanos, Scale};
use vmm::Machine;

use super::UpdateSubject;
use crate::settings::LabError;

/// How far a TSC offset is moved: far more than the time between two readings.
pub(super) const OFFSET_CYCLES: u64 = 1_000_000_000;
/// By how much the clock is set.
pub(super) const SET_NS: u64 = 5_000_000_000;

/// Whether an event could be caused.
pub(super) enum Caused {
    Done(EventResult),
    /// Why not.
    Not(String),
}

/// Whether an event changes TSC_STABLE.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Stability {
    /// It does not.
    #[default]
    Same,
    /// A master clock is possible afterwards, or not.
    Possible(bool),
    /// Kernels differ.
    Either,
}

/// What the event must show in the pages.
#[derive(Debug, Default)]
pub(super) struct EventResult {
    /// The step of each vCPU's page, ns; 0 for those not named.
    pub(super) step_ns: Vec<i64>,
    /// It may be less by this much: the clock ran while it was set.
    pub(super) less_ns: i64,
    /// What the event failed to show, if anything.
    pub(super) missing: Option<String>,
    /// Whether the pages have TSC_STABLE afterwards.
    pub(super) stable: Stability,
    /// A note for the report.
    pub(super) note: Option<String>,
}

type Result<T = Caused> = std::result::Result<T, LabError>;

fn succeed(done: EventResult) -> Result {
    Ok(Caused::Done(done))
}

pub(super) fn not(why: &str) -> Result {
    Ok(Caused::Not(why.to_owned()))
}

impl UpdateSubject {
    fn host_event(&self, event: HostEvent) {
        self.machine.notify(event);
    }

    fn register(&self, msr: u32) -> Result<()> {
        let value = GuestPages::time_address(0) | 1;
        self.machine.request(0, GuestRequest::WriteMsr { msr, value })?;
        Ok(())
    }

    /// As KVM has it.
    fn offset(&self, vcpu: usize) -> Result<u64> {
        Ok(self.machine.tsc_offset(vcpu)?)
    }

    /// Sets it, and returns by how much it changed, wrapping.
    fn set_offset(&self, vcpu: usize, offset: u64) -> Result<u64> {
        let before = self.offset(vcpu)?;
        Ok(self.machine.set_tsc_offset(vcpu, offset)?.wrapping_sub(before))
    }

    fn own_offset_of(&self, vcpu: VcpuId) -> u64 {
        self.machine.with_clock(|host, _, _| host.tsc_offset(vcpu)).flatten().unwrap_or(0)
    }

    /// The vCPU whose TSC offset is moved.
    fn last(&self) -> usize {
        self.machine.vcpus() - 1
    }

    pub(super) fn is_stable(&self) -> Result<bool> {
        Ok(self.infos()?.iter().all(|info| info.flags.contains(Flags::TSC_STABLE)))
    }
}

/// The boot vCPU's old MSR ends the master clock, as guests that use it do not
/// know TSC_STABLE; the new one brings it back.
pub(super) fn msr(subject: &UpdateSubject, msr: u32, stable: Stability) -> Result {
    subject.register(msr)?;
    succeed(EventResult { stable, ..EventResult::default() })
}

/// To another CPU and back, so that the next move is one too.
pub(super) fn moved(subject: &mut UpdateSubject) -> Result {
    let [first, second, ..] = subject.cpus[..] else {
        return not("this process may use only one pCPU");
    };
    for cpu in [second, first] {
        subject.machine.move_vcpu(0, cpu)?;
        crate::pages::reenter(&subject.machine, 0)?;
    }
    succeed(EventResult::default())
}

/// KVM compares the TSC offsets as set; the one in use is read back.
pub(super) fn kernel_offset(subject: &mut UpdateSubject) -> Result {
    let before = subject.offset(0)?;
    let vcpu = subject.last();
    let moved = subject.set_offset(vcpu, before.wrapping_add(OFFSET_CYCLES))?;
    let note = (moved != OFFSET_CYCLES).then(|| {
        let moved = moved.cast_signed();
        format!(
            "vCPU {vcpu}'s TSC offset was set {OFFSET_CYCLES} cycles higher, but moved by {moved}"
        )
    });
    let stable = with_other_offset(subject.machine.vcpus(), subject.kernel);
    succeed(EventResult { step_ns: steps(subject, moved)?, stable, note, ..EventResult::default() })
}

/// KVM up to 7.2 ends the master clock when one vCPU's TSC offset is not that of
/// the others (arch/x86/kvm/x86.c, `nr_vcpus_matched_tsc`). A series keeps it ("KVM:
/// x86: Allow KVM master clock mode when TSCs are offset from each other"): of a later
/// kernel, which may have it, either is right.
fn with_other_offset(vcpus: usize, kernel: Option<KernelVersion>) -> Stability {
    const LAST_KNOWN: KernelVersion = KernelVersion { major: 7, minor: 2 };
    if vcpus == 1 {
        Stability::Possible(true)
    } else if kernel.is_some_and(|kernel| kernel <= LAST_KNOWN) {
        Stability::Possible(false)
    } else {
        Stability::Either
    }
}

/// On all vCPUs: KVM compares with the offset that was set last.
pub(super) fn kernel_offset_back(subject: &mut UpdateSubject) -> Result {
    let offset = if subject.machine.vcpus() == 1 {
        subject.offset(0)?.wrapping_sub(OFFSET_CYCLES)
    } else {
        subject.offset(0)?
    };
    let moved = subject.set_offset(subject.last(), offset)?;
    for vcpu in 0..subject.last() {
        subject.set_offset(vcpu, offset)?;
    }
    succeed(EventResult {
        step_ns: steps(subject, moved)?,
        stable: Stability::Possible(true),
        ..EventResult::default()
    })
}

/// If KVM ignores the offset, the provider gets the event nevertheless.
pub(super) fn own_offset(subject: &UpdateSubject, cycles: u64) -> Result {
    let vcpu = VcpuId(subject.last() as u32);
    let tsc_offset = subject.own_offset_of(vcpu).wrapping_add(cycles);
    let is_ignored = subject.machine.set_tsc_offset(subject.last(), tsc_offset)? != tsc_offset;
    if is_ignored {
        subject.host_event(HostEvent::TscOffsetChanged { vcpu, tsc_offset });
    }
    let note = is_ignored
        .then(|| "this KVM ignores the offset; only the provider received the event".to_owned());
    let agree = subject.machine.vcpus() == 1 || cycles != OFFSET_CYCLES;
    let stable = Stability::Possible(agree);
    succeed(EventResult {
        step_ns: steps(subject, cycles)?,
        stable,
        note,
        ..EventResult::default()
    })
}

/// With the last vCPU's TSC further by some cycles, its page gives at any TSC
/// the time that it gave so many cycles before.
fn steps(subject: &UpdateSubject, moved_cycles: u64) -> Result<Vec<i64>> {
    let moved = moved_cycles.cast_signed();
    let infos = subject.infos()?;
    let nanos = infos[subject.last()].scale.nanos(moved.unsigned_abs());
    let step = -moved.signum() * nanos.map_or(i64::MAX, |nanos| nanos.0.cast_signed());
    let mut steps = vec![0; infos.len()];
    steps[subject.last()] = step;
    Ok(steps)
}

fn all(subject: &UpdateSubject, step_ns: i64) -> Vec<i64> {
    vec![step_ns; subject.machine.vcpus()]
}

pub(super) fn kernel_clock(subject: &UpdateSubject, by_ns: u64) -> Result {
    let began = Instant::now();
    let now = subject.machine.kernel_clock()?;
    let clock = kvm_clock_data { clock: now.clock.wrapping_add(by_ns), ..Default::default() };
    subject.machine.set_kernel_clock(&clock)?;
    let less_ns = began.elapsed().as_nanos() as i64;
    succeed(EventResult {
        step_ns: all(subject, by_ns.cast_signed()),
        less_ns,
        ..EventResult::default()
    })
}

pub(super) fn own_clock(subject: &UpdateSubject, by_ns: u64) -> Result {
    let _ = subject.machine.with_clock_exclusive(|host, now, ram| {
        let clock = Nanos(host.time(VcpuId(0), now).0.wrapping_add(by_ns));
        host.handle(HostEvent::ClockSet { clock }, now, ram);
    });
    succeed(EventResult { step_ns: all(subject, by_ns.cast_signed()), ..EventResult::default() })
}

/// With KVM_KVMCLOCK_CTRL where the clock is the kernel's.
pub(super) fn paused(subject: &mut UpdateSubject) -> Result {
    subject.machine.pause()?;
    subject.machine.resume()?;
    succeed(EventResult::default())
}

/// The clock advances by the time between save and restore; setting it takes a
/// moment.
pub(super) fn restored(subject: &mut UpdateSubject) -> Result {
    let began = Instant::now();
    let saved = subject.machine.save()?;
    let (machine, _) = Machine::restore(&saved, RestorePolicy::Advance)?;
    subject.machine = machine;
    let less_ns = began.elapsed().as_nanos() as i64;
    succeed(EventResult { less_ns, ..EventResult::default() })
}

/// By the guest, twice: the second time it must be clear.
pub(super) fn take_stopped(subject: &mut UpdateSubject) -> Result {
    if !std::mem::take(&mut subject.stopped) {
        return not("the event that sets GUEST_STOPPED was not caused");
    }
    let mut taken = Vec::new();
    for vcpu in 0..subject.machine.vcpus() {
        let take = || subject.machine.request(vcpu, GuestRequest::TakeGuestStopped);
        taken.push([take()?[0], take()?[0]]);
    }
    let note = format!("flag at two reads, by vCPU: {taken:?}");
    let missing = (taken.iter().any(|twice| *twice != [1, 0]))
        .then(|| "each vCPU must see GUEST_STOPPED once".to_owned());
    succeed(EventResult { missing, note: Some(note), ..EventResult::default() })
}

pub(super) fn own_suspend(subject: &mut UpdateSubject) -> Result {
    subject.host_event(HostEvent::HostSuspended);
    subject.host_event(HostEvent::HostResumed);
    succeed(EventResult::default())
}

/// 1 ppm higher, and back.
pub(super) fn own_frequency(subject: &mut UpdateSubject) -> Result {
    let usual = subject.machine.with_clock(|host, _, _| host.settings().advertised_tsc);
    let usual = usual.unwrap_or(Hertz(0));
    let higher = Hertz(usual.0 + usual.0 / 1_000_000);
    let mut missing = None;
    for frequency in [higher, usual] {
        subject.host_event(HostEvent::TscFrequencyAdvertised { frequency });
        crate::pages::reenter_all(&subject.machine)?;
        let due = Scale::from_hertz(frequency).ok();
        if subject.infos()?.iter().any(|info| Some(info.scale) != due) {
            missing = Some(format!("not every page has the scale of {frequency}"));
        }
    }
    let note = missing.clone().or(Some("all pages have the scale of each frequency".to_owned()));
    succeed(EventResult { missing, note, ..EventResult::default() })
}

pub(super) fn own_clocksource(subject: &UpdateSubject, is_tsc: bool) -> Result {
    if vmm::host_clock::clocksource_is_tsc() == Some(false) {
        return not("this host's clocksource is not the TSC");
    }
    subject.host_event(HostEvent::HostClocksource { is_tsc });
    succeed(EventResult { stable: Stability::Possible(is_tsc), ..EventResult::default() })
}

/// It is created and never run: that is enough for KVM to synchronise its TSC.
pub(super) fn kernel_vcpu(subject: &mut UpdateSubject) -> Result {
    match subject.machine.add_idle_vcpu(VcpuId(subject.machine.vcpus() as u32)) {
        Ok(()) => succeed(EventResult::default()),
        Err(error) => not(&error.to_string()),
    }
}

pub(super) fn own_vcpu(subject: &mut UpdateSubject) -> Result {
    let vcpu = VcpuId(subject.machine.vcpus() as u32);
    let tsc_offset = subject.own_offset_of(VcpuId(0));
    subject.host_event(HostEvent::VcpuCreated { vcpu, tsc_offset });
    succeed(EventResult::default())
}

pub(super) fn own_vcpu_other_tsc(subject: &mut UpdateSubject) -> Result {
    let vcpu = VcpuId(subject.machine.vcpus() as u32 + 1);
    if !subject.is_stable()? {
        return not("there is no master clock to end");
    }
    let stable = Stability::Possible(false);
    let tsc_offset = subject.own_offset_of(VcpuId(0)).wrapping_add(OFFSET_CYCLES);
    subject.host_event(HostEvent::VcpuCreated { vcpu, tsc_offset });
    succeed(EventResult { stable, ..EventResult::default() })
}

pub(super) fn own_physical_cpu(subject: &mut UpdateSubject) -> Result {
    subject.host_event(HostEvent::PhysicalCpuAdded { physical_cpu: u32::MAX, tsc_agrees: false });
    succeed(EventResult { stable: Stability::Possible(false), ..EventResult::default() })
}

/// By a reading of the host's clock at the deadline.
pub(super) fn own_period(subject: &mut UpdateSubject) -> Result {
    let _ = subject.machine.with_clock(|host, now, ram| {
        let boot = host.deadline().unwrap_or(now.boot);
        host.handle(HostEvent::Timer, now.changed(|new| new.boot = boot), ram);
    });
    succeed(EventResult::default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_another_tsc_offset_does_is_expected_by_the_kernels_version() {
        let expected = |vcpus, release| with_other_offset(vcpus, KernelVersion::parse(release));
        assert_eq!(expected(2, "7.2.13+deb14-amd64"), Stability::Possible(false));
        assert_eq!(expected(2, "7.3.4-amd64"), Stability::Either);
        assert_eq!(expected(1, "7.3.4-amd64"), Stability::Possible(true));
    }
}
