//! Why a machine cannot be started, or does not reply.

use std::time::Duration;

use crate::guest_fault::GuestFault;

/// Why a machine cannot be started, or does not reply.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MachineError {
    /// /dev/kvm cannot be opened.
    #[error("/dev/kvm: {0}")]
    NoKvm(kvm_ioctls::Error),
    /// KVM has no support for it.
    #[error("this KVM has no {what}")]
    Unsupported {
        /// What is missing.
        what: &'static str,
    },
    /// KVM may have it; this machine makes no use of it.
    #[error("this VMM does not {what}: unset it in host::ClockSettings")]
    NotInThisMachine {
        /// What it would have to do.
        what: &'static str,
    },
    /// A call to KVM failed.
    #[error("{call}: {error}")]
    Kvm {
        /// The call.
        call: &'static str,
        /// The kernel's error.
        error: kvm_ioctls::Error,
    },
    /// More vCPUs than the image has room for, or none.
    #[error("{requested} vCPUs requested; a machine has 1 to {most}")]
    Vcpus {
        /// The requested number.
        requested: usize,
        /// The largest number.
        most: usize,
    },
    /// Not enough for the guest.
    #[error("{size} bytes of guest memory requested; the guest needs {least}")]
    TooLittleMemory {
        /// As requested.
        size: u64,
        /// As needed.
        least: u64,
    },
    /// The host does not map it.
    #[error("{size} bytes of guest memory: {error}")]
    Memory {
        /// As requested.
        size: u64,
        /// vm-memory's error.
        error: String,
    },
    /// The image does not load.
    #[error("the guest image does not load: {0}")]
    Image(String),
    /// A vCPU's thread did not start, or has ended.
    #[error("vCPU thread: {0}")]
    Thread(std::io::Error),
    /// The provider's settings are invalid.
    #[error(transparent)]
    Provider(#[from] host::SettingsError),
    /// The saved clock cannot continue on this host.
    #[error(transparent)]
    Restore(#[from] host::RestoreError),
    /// The provider has no such register.
    #[error(transparent)]
    Register(#[from] host::MsrError),
    /// KVM's clock was not saved or restored.
    #[error(transparent)]
    Clock(#[from] kvm::Error),
    /// The saved devices cannot be restored.
    #[error("the saved serial port has more received bytes than a 16550 holds")]
    Devices,
    /// The guest failed.
    #[error("vCPU {vcpu} failed: {guest_fault}")]
    GuestFailed {
        /// The vCPU.
        vcpu: usize,
        /// How.
        guest_fault: GuestFault,
    },
    /// It does not reply.
    #[error("vCPU {vcpu} did not reply within {limit:?}")]
    TimedOut {
        /// The vCPU.
        vcpu: usize,
        /// The timeout.
        limit: Duration,
    },
    /// A request while another is pending.
    #[error("vCPU {vcpu}: request {request} refused, the previous one is still pending")]
    RequestPending {
        /// The vCPU.
        vcpu: usize,
        /// The request.
        request: String,
    },
    /// State in KVM that this crate does not save.
    #[error("a machine with {what} cannot be saved")]
    Unsaveable {
        /// That state.
        what: &'static str,
    },
    /// It claims more records than there is room for.
    #[error("vCPU {vcpu}: {written} records written, but there is room for {room}")]
    Flooded {
        /// The vCPU.
        vcpu: usize,
        /// Written, according to the guest.
        written: u64,
        /// How many can be.
        room: usize,
    },
    /// The guest could not do it.
    #[error("vCPU {vcpu}: request {request} failed: {outcome:?}")]
    Declined {
        /// The vCPU.
        vcpu: usize,
        /// The request.
        request: String,
        /// The reply.
        outcome: guest::request::RequestOutcome,
    },
    /// Its reply is invalid.
    #[error("vCPU {vcpu}: request {request}: invalid reply {code}, {words:x?}")]
    InvalidReply {
        /// The vCPU.
        vcpu: usize,
        /// The request.
        request: String,
        /// The reply's code.
        code: u64,
        /// The reply's words.
        words: guest::protocol::Words,
    },
}

impl MachineError {
    /// For `map_err` on a call to KVM.
    pub(crate) fn kvm(call: &'static str) -> impl FnOnce(kvm_ioctls::Error) -> Self {
        move |error| Self::Kvm { call, error }
    }

    /// The kernel's error number, if a call to KVM failed.
    pub(crate) fn errno(&self) -> Option<i32> {
        match self {
            Self::Kvm { error, .. } | Self::Clock(kvm::Error::Call { error, .. }) => {
                Some(error.errno())
            }
            _ => None,
        }
    }
}
