//! Why a clock is not saved or restored.

use pvclock::{Hertz, Nanos};
use pvclock_host::VcpuId;

/// Why a clock is not saved or restored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A call to KVM failed.
    #[error("{call}: {error}")]
    Call {
        /// The call.
        call: &'static str,
        /// The kernel's error.
        error: kvm_ioctls::Error,
    },
    /// The saved clock is that of another VM.
    #[error("the saved clock has {saved} vCPUs, this VM has {here}")]
    VcpuCount {
        /// vCPUs of the saved clock.
        saved: usize,
        /// vCPUs of this VM.
        here: usize,
    },
    /// KVM would run a TSC faster than the host's in catch-up mode: it stands still and
    /// jumps at each entry (tsc_catchup, arch/x86/kvm/x86.c).
    #[error(
        "KVM does not scale here: a TSC of {guest} on a host of {host} would be in catch-up mode, which jumps"
    )]
    CatchUp {
        /// The guest's rate.
        guest: Hertz,
        /// The host's rate.
        host: Hertz,
    },
    /// KVM cannot run a TSC slower than the host's.
    #[error("KVM does not scale here: it cannot run a TSC of {guest} on a host of {host}")]
    TooSlow {
        /// The guest's rate.
        guest: Hertz,
        /// The host's rate.
        host: Hertz,
    },
    /// arm64: no KVM scales the counter.
    #[error("the saved counter runs at {saved}, this host's at {here}")]
    CounterRate {
        /// Its rate.
        saved: Hertz,
        /// The host's rate.
        here: Hertz,
    },
    /// A clock is held on the host and boot that saved it alone.
    #[error("hold: the clock was saved on another boot of this host, or on another host")]
    OtherBoot,
    /// One of the guest's registers of time could not be set: its local timer, its
    /// TSC's adjustment, a page's address.
    #[error("KVM refuses {value:#x} for MSR {msr:#x}")]
    Msr {
        /// The register.
        msr: u32,
        /// The value.
        value: u64,
    },
    /// KVM kept the TSC offset that it had: the guest's TSC does not continue with its clock.
    #[error(
        "KVM kept vCPU {}'s TSC offset: the guest's TSC steps by {step_ns} ns, beyond {allowed}",
        .vcpu.0
    )]
    TscStep {
        /// The vCPU.
        vcpu: VcpuId,
        /// How far its TSC is ahead of the clock, ns.
        step_ns: i64,
        /// What passes: [`RestoredClock::check`](crate::RestoredClock::check).
        allowed: Nanos,
    },
    /// KVM kept TSC offsets, and the vCPUs' TSCs no longer relate as the guest left them.
    #[error("KVM kept vCPU {}'s TSC offset: its TSC moved by {cycles} cycles against vCPU 0's", .vcpu.0)]
    TscSkew {
        /// The vCPU.
        vcpu: VcpuId,
        /// By how much.
        cycles: i64,
    },
    /// The saved clock cannot continue on this host.
    #[error(transparent)]
    Restore(#[from] pvclock_host::RestoreError),
}

impl Error {
    /// For `map_err` on a call to KVM.
    pub(crate) fn call(call: &'static str) -> impl FnOnce(kvm_ioctls::Error) -> Self {
        move |error| Self::Call { call, error }
    }
}

impl From<pvclock_host::RatioError> for Error {
    fn from(error: pvclock_host::RatioError) -> Self {
        Self::Restore(error.into())
    }
}
