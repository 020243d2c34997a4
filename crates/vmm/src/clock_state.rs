//! Saving and restoring the clock that KVM itself keeps for a VM: for any
//! VMM on kvm-ioctls, not for our machine alone.
//!
//! The order is what matters, and what goes wrong in the field:
//!
//! 1. the TSC's frequency, for the next two depend on it;
//! 2. the TSC, by its offset: a value written by KVM_SET_MSRS is stale by the
//!    time it arrives, and KVM guesses whether vCPUs are meant to agree;
//! 3. KVM_SET_CLOCK, which records the TSC that goes with it;
//! 4. KVM_KVMCLOCK_CTRL, so that the guest knows it stood still: the flag
//!    lives in the page, so one raised before the save may not be in it;
//! 5. the vCPUs run. A clock set after that is a known cause of guests that
//!    hang for minutes (Documentation/virt/kvm/devices/vcpu.rst, 4.1).

use host::{Policy, Reading};
use kvm_bindings::{KVM_CLOCK_HOST_TSC, KVM_CLOCK_REALTIME, kvm_clock_data};
use kvm_ioctls::{VcpuFd, VmFd};

use crate::error::MachineError;
use crate::{host_clock, kvm};

const NANOS_PER_MILLI: u128 = 1_000_000;

/// What KVM keeps of a VM's clock, with the moment it was taken at.
#[derive(Debug, Clone, PartialEq)]
pub struct ClockState {
    /// kvm-clock, ns.
    pub clock_ns: u64,
    /// The host's clocks at that moment.
    pub taken: Reading,
    /// Each vCPU's TSC then.
    pub tscs: Vec<TscState>,
}

/// One vCPU's TSC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TscState {
    /// Its rate, kHz.
    pub khz: u32,
    /// Guest TSC less host TSC, wrapping.
    pub offset: u64,
}

/// What a restore did.
#[derive(Debug, Clone, PartialEq)]
pub struct RestoredClock {
    /// Time that counted as passed while the VM was away, ns.
    pub away_ns: u64,
    /// kvm-clock was set to this, ns.
    pub clock_ns: u64,
    /// Each vCPU's TSC.
    pub tscs: Vec<RestoredTsc>,
}

/// What became of one vCPU's TSC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RestoredTsc {
    /// The offset that was set, wrapping.
    pub wanted: u64,
    /// The offset that KVM has now: software KVMs keep it at 0.
    pub offset: u64,
}

/// Takes the state; the vCPUs must not run.
///
/// # Errors
/// KVM's own; Linux before 5.16 does not tell TSC offsets.
pub fn save(vm: &VmFd, vcpus: &[&VcpuFd]) -> Result<ClockState, MachineError> {
    let tscs = vcpus.iter().map(|vcpu| TscState::of(vcpu)).collect::<Result<_, _>>()?;
    let (clock_ns, taken) = save_clock(vm)?;
    Ok(ClockState { clock_ns, taken, tscs })
}

/// Puts it back, in the order that works, and tells the guest that it stood
/// still. The vCPUs must not have run since their state was restored, and the
/// guest's system-time MSR must be restored already: the page is written anew
/// at the next entry.
///
/// # Errors
/// [`MachineError::OtherVcpus`], KVM's own.
pub fn restore(
    vm: &VmFd,
    vcpus: &[&VcpuFd],
    saved: &ClockState,
    policy: Policy,
) -> Result<RestoredClock, MachineError> {
    restore_at(vm, vcpus, saved, policy, host_clock::read())
}

/// The same for who restores other clocks by the same reading.
pub(crate) fn restore_at(
    vm: &VmFd,
    vcpus: &[&VcpuFd],
    saved: &ClockState,
    policy: Policy,
    now: Reading,
) -> Result<RestoredClock, MachineError> {
    if vcpus.len() != saved.tscs.len() {
        return Err(MachineError::OtherVcpus { saved: saved.tscs.len(), here: vcpus.len() });
    }
    let away_ns = away(saved.taken, now, policy);
    let mut tscs = Vec::with_capacity(vcpus.len());
    for (vcpu, tsc) in vcpus.iter().zip(&saved.tscs) {
        tscs.push(tsc.restore(vcpu, saved.taken, now, away_ns)?);
    }
    let clock_ns = restore_clock(vm, saved.clock_ns, saved.taken, policy)?;
    for vcpu in vcpus {
        announce(vcpu)?;
    }
    Ok(RestoredClock { away_ns, clock_ns, tscs })
}

/// The time that counts as passed: by real time, for the boot clock of
/// another host says nothing, and none where real time went back.
pub fn away(taken: Reading, now: Reading, policy: Policy) -> u64 {
    match policy {
        Policy::Advance => now.real.0.0.saturating_sub(taken.real.0.0),
        Policy::Freeze => 0,
    }
}

impl TscState {
    /// Takes it.
    ///
    /// # Errors
    /// KVM's own.
    pub fn of(vcpu: &VcpuFd) -> Result<Self, MachineError> {
        let khz = vcpu.get_tsc_khz().map_err(MachineError::kvm("KVM_GET_TSC_KHZ"))?;
        Ok(Self { khz, offset: kvm::tsc_offset(vcpu)? })
    }

    /// Steps 1 and 2: the guest's TSC goes on from what it was at `taken`, by
    /// what passed.
    ///
    /// # Errors
    /// KVM's own; the frequency differs and the CPU does not scale.
    pub fn restore(
        &self,
        vcpu: &VcpuFd,
        taken: Reading,
        now: Reading,
        away_ns: u64,
    ) -> Result<RestoredTsc, MachineError> {
        let khz = vcpu.get_tsc_khz().map_err(MachineError::kvm("KVM_GET_TSC_KHZ"))?;
        let scaled = khz != self.khz;
        if scaled {
            vcpu.set_tsc_khz(self.khz).map_err(MachineError::kvm("KVM_SET_TSC_KHZ"))?;
        }
        let passed = u128::from(away_ns) * u128::from(self.khz) / NANOS_PER_MILLI;
        let wanted_tsc = taken.tsc.0.wrapping_add(self.offset).wrapping_add(passed as u64);
        let host_tsc = if scaled {
            (u128::from(now.tsc.0) * u128::from(self.khz) / u128::from(khz.max(1))) as u64
        } else {
            now.tsc.0
        };
        let wanted = wanted_tsc.wrapping_sub(host_tsc);
        kvm::set_tsc_offset(vcpu, wanted)?;
        Ok(RestoredTsc { wanted, offset: kvm::tsc_offset(vcpu)? })
    }
}

/// KVM_GET_CLOCK, with the host's clocks of the same moment: KVM's own where
/// it gives them (Linux 5.16), ours around the call where not.
pub(crate) fn save_clock(vm: &VmFd) -> Result<(u64, Reading), MachineError> {
    let mut taken = host_clock::read();
    let data = vm.get_clock().map_err(MachineError::kvm("KVM_GET_CLOCK"))?;
    let both = KVM_CLOCK_REALTIME | KVM_CLOCK_HOST_TSC;
    if data.flags & both == both {
        taken.real = units::UnixTime(pvclock::Nanos(data.realtime));
        taken.tsc = pvclock::Ticks(data.host_tsc);
    }
    Ok((data.clock, taken))
}

/// Step 3. With `Advance` KVM itself adds the real time that passed, up to
/// the very moment it sets the clock.
pub(crate) fn restore_clock(
    vm: &VmFd,
    clock_ns: u64,
    taken: Reading,
    policy: Policy,
) -> Result<u64, MachineError> {
    let real = taken.real.0.0;
    let data = match policy {
        Policy::Advance => kvm_clock_data {
            clock: clock_ns,
            flags: KVM_CLOCK_REALTIME,
            realtime: real,
            ..Default::default()
        },
        Policy::Freeze => kvm_clock_data { clock: clock_ns, ..Default::default() },
    };
    if vm.set_clock(&data).is_err() {
        // Before 5.16 there is no such flag: the sum is ours.
        let clock = clock_ns + away(taken, host_clock::read(), policy);
        let data = kvm_clock_data { clock, ..Default::default() };
        vm.set_clock(&data).map_err(MachineError::kvm("KVM_SET_CLOCK"))?;
    }
    Ok(vm.get_clock().map_err(MachineError::kvm("KVM_GET_CLOCK"))?.clock)
}

/// Step 4: GUEST_STOPPED at the next update. Whether the guest has a page to
/// be told by.
///
/// # Errors
/// KVM's own.
pub fn announce(vcpu: &VcpuFd) -> Result<bool, MachineError> {
    match vcpu.kvmclock_ctrl() {
        Ok(()) => Ok(true),
        // The guest has no page (kvm_set_guest_paused, arch/x86/kvm/x86.c).
        Err(error) if error.errno() == libc::EINVAL => Ok(false),
        Err(error) => Err(MachineError::Kvm { call: "KVM_KVMCLOCK_CTRL", error }),
    }
}
