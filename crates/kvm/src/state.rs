//! All clocks of a VM, for a VMM that calls from one thread.
//!
//! The order is what matters, and what goes wrong in the field:
//!
//! 1. the TSC's frequency, because 2 and 3 depend on it;
//! 2. each vCPU's TSC, by its offset;
//! 3. KVM_SET_CLOCK, which records the TSC that belongs to the clock;
//! 4. KVM_KVMCLOCK_CTRL, so that the guest learns that it was stopped: the flag
//!    lives in the page, and one raised before the save may not be in it;
//! 5. the vCPUs run. Setting the clock later makes some guests hang for minutes
//!    (cloud-hypervisor issue 7930).
//!
//! The kernel's document sets the clock before the offsets
//! (Documentation/virt/kvm/devices/vcpu.rst, 4.1). Both orders work: an offset
//! set later has KVM compute its pages again from the same clock.

use host::{ClockPlan, HostClocks, Policy, RestoreError, VcpuId};
use kvm_ioctls::{VcpuFd, VmFd};
use pvclock::Nanos;

use crate::{
    Error, HostTsc, RestoredTsc, SavedTsc, announce_stop, host_clock, restore_clock, save_clock,
};

/// Two pages, each cut to whole ns when it is written and when it is read.
const ROUNDING_NS: u64 = 4;

/// The clocks of a VM that KVM keeps, saved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClockState {
    /// kvm-clock.
    pub clock: Nanos,
    /// The host's clocks at that moment.
    pub taken: HostClocks,
    /// Each vCPU's TSC at that moment.
    pub tscs: Vec<SavedTsc>,
}

/// The result of a restore.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestoredClock {
    /// Time that passed for the guest while it was away.
    pub away: Nanos,
    /// kvm-clock after the restore.
    pub clock: Nanos,
    /// Each vCPU's TSC.
    pub tscs: Vec<RestoredTsc>,
    /// From when on the clocks go on: `away` ends here.
    pub since: HostClocks,
    /// How far the guest's clock may be from the plan, but for errors of the
    /// hosts' real time: the time that setting it took, and rounding.
    pub bound: Nanos,
}

impl ClockState {
    /// Where the clock continues with `policy`, on a host whose clocks read
    /// `now`. Away time is real time: another host's boot clock is unrelated.
    ///
    /// # Errors
    /// The sum exceeds 64 bits.
    pub fn plan(&self, policy: Policy, now: HostClocks) -> Result<ClockPlan, RestoreError> {
        ClockPlan::new(self.clock, self.taken.real, policy, now.real)
    }
}

/// Saves all clocks; the vCPUs must not run.
///
/// # Errors
/// KVM's own; Linux before 5.16 has no TSC offset attribute.
pub fn save(vm: &VmFd, vcpus: &[&VcpuFd], host: HostTsc) -> Result<ClockState, Error> {
    let (clock, taken) = save_clock(vm)?;
    let tscs = vcpus.iter().map(|vcpu| SavedTsc::save(vcpu, host, taken));
    Ok(ClockState { clock, taken, tscs: tscs.collect::<Result<_, _>>()? })
}

/// Restores all clocks in the order that works, as planned for `now`, a recent
/// [`crate::host_clock::read`], and raises GUEST_STOPPED. The
/// vCPUs must not have run since their registers were restored, and the guest's
/// system-time MSR must be among those: KVM writes the page again at the next
/// entry.
///
/// # Errors
/// [`Error`].
pub fn restore(
    vm: &VmFd,
    vcpus: &[&VcpuFd],
    saved: &ClockState,
    host: HostTsc,
    policy: Policy,
    now: HostClocks,
) -> Result<RestoredClock, Error> {
    let (saved_vcpus, here) = (saved.tscs.len(), vcpus.len());
    if saved_vcpus != here {
        return Err(Error::VcpuCount { saved: saved_vcpus, here });
    }
    let plan = saved.plan(policy, now)?;
    let tscs = (0..).map(VcpuId).zip(vcpus).zip(&saved.tscs);
    let tscs = tscs.map(|((id, vcpu), tsc)| tsc.restore(vcpu, id, host, &plan, now));
    let tscs = tscs.collect::<Result<_, _>>()?;
    let before = host_clock::boot();
    // With `Freeze` KVM adds nothing: what has passed since `now` passed for the
    // TSCs, and must for the clock.
    let passed = match policy {
        Policy::Advance => 0,
        Policy::Freeze => before.0.saturating_sub(now.boot.0),
    };
    let frozen = Nanos(saved.clock.0.saturating_add(passed));
    let clock = restore_clock(vm, frozen, saved.taken.real, policy)?;
    let took = host_clock::boot().0.saturating_sub(before.0);
    let bound = Nanos(took.saturating_add(ROUNDING_NS));
    for vcpu in vcpus {
        announce_stop(vcpu)?;
    }
    Ok(RestoredClock { away: plan.away, clock, tscs, since: now, bound })
}
