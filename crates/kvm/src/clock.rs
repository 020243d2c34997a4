//! The VM's kvm-clock: KVM_GET_CLOCK, KVM_SET_CLOCK and KVM_KVMCLOCK_CTRL.

use host::{ClockPlan, HostClocks, Policy};
use kvm_bindings::{KVM_CLOCK_HOST_TSC, KVM_CLOCK_REALTIME, kvm_clock_data};
use kvm_ioctls::{VcpuFd, VmFd};
use pvclock::{Nanos, Ticks};
use units::UnixTime;

use crate::{Error, host_clock};

/// kvm-clock, and the host's clocks of the same moment: KVM's own where it
/// returns them (Linux 5.16), else ours around the call.
///
/// # Errors
/// KVM's own.
pub fn save_clock(vm: &VmFd) -> Result<(Nanos, HostClocks), Error> {
    let mut taken = host_clock::read();
    let data = vm.get_clock().map_err(Error::call("KVM_GET_CLOCK"))?;
    let both = KVM_CLOCK_REALTIME | KVM_CLOCK_HOST_TSC;
    if data.flags & both == both {
        taken.real = UnixTime(Nanos(data.realtime));
        taken.tsc = Ticks(data.host_tsc);
    }
    Ok((Nanos(data.clock), taken))
}

/// Sets kvm-clock to where `clock` continues, which was saved at the real time
/// `taken_at`; returns its value after that. With `Advance` KVM itself adds the
/// real time that passed, up to the moment at which it sets the clock.
///
/// Set each vCPU's TSC before: KVM records the TSC that belongs to the clock.
///
/// # Errors
/// KVM's own, or the sum exceeds 64 bits.
pub fn restore_clock(
    vm: &VmFd,
    clock: Nanos,
    taken_at: UnixTime,
    policy: Policy,
) -> Result<Nanos, Error> {
    let realtime = (policy == Policy::Advance).then_some(taken_at.0.0);
    let data = kvm_clock_data {
        clock: clock.0,
        flags: realtime.map_or(0, |_| KVM_CLOCK_REALTIME),
        realtime: realtime.unwrap_or(0),
        ..Default::default()
    };
    if vm.set_clock(&data).is_err() {
        // Before 5.16 the flag does not exist: the sum is computed here.
        let plan = ClockPlan::new(clock, taken_at, policy, host_clock::read().real)?;
        let data = kvm_clock_data { clock: plan.clock.0, ..Default::default() };
        vm.set_clock(&data).map_err(Error::call("KVM_SET_CLOCK"))?;
    }
    Ok(Nanos(vm.get_clock().map_err(Error::call("KVM_GET_CLOCK"))?.clock))
}

/// Raises GUEST_STOPPED at the next update of this vCPU's page; `false` where
/// the guest has no page.
///
/// # Errors
/// KVM's own.
pub fn announce_stop(vcpu: &VcpuFd) -> Result<bool, Error> {
    match vcpu.kvmclock_ctrl() {
        Ok(()) => Ok(true),
        // The guest has no page (kvm_set_guest_paused, arch/x86/kvm/x86.c).
        Err(error) if error.errno() == libc::EINVAL => Ok(false),
        Err(error) => Err(Error::Call { call: "KVM_KVMCLOCK_CTRL", error }),
    }
}
