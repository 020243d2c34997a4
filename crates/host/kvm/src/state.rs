//! All clocks of a VM, for a VMM that calls from one thread.
//!
//! The order is what matters, and what goes wrong in the field:
//!
//! 1. each vCPU's TSC frequency, because offsets are in cycles of it;
//! 2. KVM_SET_CLOCK, read back: clock and TSC of one moment;
//! 3. each vCPU's TSC, by its offset, to continue with the clock from that moment;
//! 4. TSC_ADJUST and the TSC deadline, which count in the TSC; the guest's pages;
//! 5. KVM_KVMCLOCK_CTRL, so that the guest learns that it was stopped: the flag
//!    lives in the page, and one raised before the save may not be in it;
//! 6. the vCPUs run. Setting the clock later makes some guests hang for minutes
//!    (cloud-hypervisor issue 7930).
//!
//! That is the kernel's own procedure (Documentation/virt/kvm/devices/vcpu.rst, 4.1).
//! An offset set after the clock has KVM compute its pages again, from the same clock.

use kvm_ioctls::Kvm;
use pvclock::Nanos;
use pvclock_host::{ClockPlan, RestoreError, RestorePolicy, VcpuId};
use serde::{Deserialize, Serialize};

use crate::saved::Document;
use crate::{
    Error, HostTsc, KvmVcpu, KvmVm, RestoredClock, RestoredTsc, SavedClock, SavedTsc, host_clock,
    restore_clock, save_clock,
};

/// Longer than any restore takes: a clock and TSCs that have room for as much more do not
/// overflow in its course.
const ROOM: Nanos = Nanos(3_600 * 1_000_000_000);

/// What is known of a host.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct HostCapabilities {
    /// Its TSC.
    pub tsc: HostTsc,
    /// How far its time of day is off at most, if its NTP daemon states it.
    pub real_error: Option<Nanos>,
    /// Its boot: [`host_clock::boot_id`].
    pub boot_id: Option<String>,
}

impl HostCapabilities {
    /// A host of which no more is known.
    pub const fn new(tsc: HostTsc) -> Self {
        Self { tsc, real_error: None, boot_id: None }
    }

    /// This host.
    ///
    /// # Errors
    /// KVM's own.
    pub fn query(kvm: &Kvm) -> Result<Self, Error> {
        Ok(Self { boot_id: host_clock::boot_id(), ..Self::new(HostTsc::query(kvm)?) })
    }

    /// The same, with a bound of the error of its time of day.
    #[must_use]
    pub fn with_real_error(self, error: Nanos) -> Self {
        Self { real_error: Some(error), ..self }
    }
}

/// The clocks of a VM that KVM keeps, saved; a VMM serializes it into its snapshot.
///
/// ```
/// # use pvclock_kvm::KvmClockState;
/// let later = serde_json::from_str::<KvmClockState>(r#"{"version": 2}"#).unwrap_err().to_string();
/// assert!(later.starts_with("the saved clock has version 2; this program knows versions 1 to 1"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Document", into = "Document")]
#[non_exhaustive]
pub struct KvmClockState {
    /// kvm-clock.
    pub clock: SavedClock,
    /// The host that saved it.
    pub host: HostCapabilities,
    /// Each vCPU's TSC at that moment.
    pub tscs: Vec<SavedTsc>,
}

/// The result of a restore.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RestoredState {
    /// kvm-clock.
    pub clock: RestoredClock,
    /// Each vCPU's TSC.
    pub tscs: Vec<RestoredTsc>,
}

impl KvmClockState {
    /// What was saved by several threads, put together.
    pub const fn new(clock: SavedClock, host: HostCapabilities, tscs: Vec<SavedTsc>) -> Self {
        Self { clock, host, tscs }
    }

    /// Checks that it can be restored by `policy` on `host`, to as many vCPUs, before any
    /// of them is changed. What then still fails is a call to KVM.
    ///
    /// # Errors
    /// [`Error`].
    pub fn check(
        &self,
        vm: &impl KvmVm,
        vcpus: usize,
        host: &HostCapabilities,
        policy: RestorePolicy,
    ) -> Result<(), Error> {
        if self.tscs.len() != vcpus {
            return Err(Error::VcpuCount { saved: self.tscs.len(), here: vcpus });
        }
        let is_same_boot = self.host.boot_id.is_some() && self.host.boot_id == host.boot_id;
        if policy == RestorePolicy::Hold && !is_same_boot {
            return Err(Error::OtherBoot);
        }
        let now = vm.host_clocks().clocks;
        let plan = ClockPlan::new(self.clock.clock, self.clock.taken, policy, now)?;
        let latest = plan.clock.0.checked_add(ROOM.0).map(Nanos);
        let latest = latest.ok_or(RestoreError::Clock { clock: plan.clock, away: ROOM })?;
        let plan = plan.read_back(latest);
        (0..).map(VcpuId).zip(&self.tscs).try_for_each(|(id, tsc)| {
            host.tsc.plan(tsc.frequency)?;
            Ok(plan.tsc(id, tsc.tsc, tsc.frequency, 0).map(drop)?)
        })
    }

    /// Sets kvm-clock to where this one continues: [`restore_clock`].
    ///
    /// # Errors
    /// [`Error`].
    pub fn restore_clock(
        &self,
        vm: &impl KvmVm,
        host: &HostCapabilities,
        policy: RestorePolicy,
    ) -> Result<RestoredClock, Error> {
        restore_clock(vm, &self.clock, self.host.real_error, host, policy)
    }
}

/// Saves all clocks; the vCPUs must not run.
///
/// # Errors
/// KVM's own; Linux before 5.16 has no TSC offset attribute.
pub fn save<V: KvmVcpu>(
    vm: &impl KvmVm,
    vcpus: &[&V],
    host: &HostCapabilities,
) -> Result<KvmClockState, Error> {
    let clock = save_clock(vm, host.tsc)?;
    let tscs = vcpus.iter().map(|vcpu| SavedTsc::save(*vcpu, host.tsc, clock.taken));
    Ok(KvmClockState::new(clock, host.clone(), tscs.collect::<Result<_, _>>()?))
}

/// Restores all clocks in the order that works, and raises GUEST_STOPPED. The
/// vCPUs must not have run since memory and registers were restored: KVM writes the
/// guest's pages again at the next entry. A clock that cannot continue here is refused
/// before anything is set ([`KvmClockState::check`]). A call to KVM that fails later leaves the
/// VM with some of its clocks: create another VM to try again.
///
/// # Errors
/// [`Error`].
pub fn restore<V: KvmVcpu>(
    vm: &impl KvmVm,
    vcpus: &[&V],
    saved: &KvmClockState,
    host: &HostCapabilities,
    policy: RestorePolicy,
) -> Result<RestoredState, Error> {
    saved.check(vm, vcpus.len(), host, policy)?;
    let pairs = || vcpus.iter().copied().zip(&saved.tscs);
    pairs().try_for_each(|(vcpu, tsc)| tsc.restore_rate(vcpu, host.tsc))?;
    let clock = saved.restore_clock(vm, host, policy)?;
    let tscs = (0..).map(VcpuId).zip(pairs());
    let tscs = tscs.map(|(id, (vcpu, tsc))| tsc.restore(vcpu, id, host.tsc, &clock));
    let tscs = tscs.collect::<Result<_, _>>()?;
    vcpus.iter().try_for_each(|vcpu| vcpu.announce_stop().map(drop))?;
    Ok(RestoredState { clock, tscs })
}
