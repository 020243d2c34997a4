//! What keeps a machine from being made or asked.

use std::time::Duration;

use crate::guest_fault::GuestFault;

/// Why there is no machine, or no answer from it.
#[derive(Debug, thiserror::Error)]
pub enum MachineError {
    /// No /dev/kvm, or not for us.
    #[error("/dev/kvm: {0}")]
    NoKvm(kvm_ioctls::Error),
    /// KVM lacks something.
    #[error("KVM here lacks {what}")]
    Lacks {
        /// The capability's name.
        what: &'static str,
    },
    /// A call to KVM failed.
    #[error("{call}: {error}")]
    Kvm {
        /// Which.
        call: &'static str,
        /// The kernel's answer.
        error: kvm_ioctls::Error,
    },
    /// More vCPUs than the image has room for, or none.
    #[error("{asked} vCPUs: there can be 1 to {most}")]
    Vcpus {
        /// How many were asked for.
        asked: usize,
        /// How many there can be.
        most: usize,
    },
    /// Not enough for the guest.
    #[error("{size} bytes of guest memory: the guest needs {least}")]
    TooLittleMemory {
        /// Asked for.
        size: u64,
        /// Needed.
        least: u64,
    },
    /// The host does not map it.
    #[error("{size} bytes of guest memory: {error}")]
    Memory {
        /// Asked for.
        size: u64,
        /// vm-memory's words.
        error: String,
    },
    /// The image does not load.
    #[error("the guest's image does not load: {0}")]
    Image(String),
    /// A thread did not start.
    #[error("a thread for a vCPU: {0}")]
    Thread(std::io::Error),
    /// The provider does not take its settings.
    #[error(transparent)]
    Provider(#[from] host::SettingsError),
    /// The saved clock cannot continue on this host.
    #[error(transparent)]
    Restore(#[from] host::RestoreError),
    /// KVM's clock was not saved or restored.
    #[error(transparent)]
    Clock(#[from] kvm::Error),
    /// Saved devices that make none here.
    #[error("devices do not come back: {0:?}")]
    Devices(crate::devices::Unrestorable),
    /// The guest died.
    #[error("vCPU {vcpu} died: {guest_fault}")]
    Died {
        /// Which vCPU.
        vcpu: usize,
        /// How.
        guest_fault: GuestFault,
    },
    /// It does not answer.
    #[error("vCPU {vcpu} has not answered within {limit:?}")]
    TimedOut {
        /// Which vCPU.
        vcpu: usize,
        /// How long it was waited for.
        limit: Duration,
    },
    /// A question is put while it still has one.
    #[error("vCPU {vcpu} has not answered its last question: there is no asking {asked} yet")]
    Unanswered {
        /// Which vCPU.
        vcpu: usize,
        /// What was to be asked.
        asked: String,
    },
    /// State that KVM keeps and we do not know how to take.
    #[error("a machine with {what} cannot be saved")]
    Unsaveable {
        /// What it has.
        what: &'static str,
    },
    /// It says that it wrote more than there is room for.
    #[error("vCPU {vcpu} claims {head} records where {tail} are read and {room} fit")]
    Flooded {
        /// Which vCPU.
        vcpu: usize,
        /// Written, as it says.
        head: u64,
        /// Read.
        tail: u64,
        /// The ring's size.
        room: u64,
    },
    /// It answered that it cannot.
    #[error("vCPU {vcpu} was asked {asked} and answers: {outcome:?}")]
    Declined {
        /// Which vCPU.
        vcpu: usize,
        /// What was asked.
        asked: String,
        /// Its answer.
        outcome: guest::request::Outcome,
    },
    /// It answered what is no answer.
    #[error("vCPU {vcpu} was asked {asked} and answers nonsense: {code}, {words:x?}")]
    Nonsense {
        /// Which vCPU.
        vcpu: usize,
        /// What was asked.
        asked: String,
        /// Its answer's code.
        code: u64,
        /// Its answer's words.
        words: guest::protocol::Words,
    },
}

impl MachineError {
    /// For `map_err` on a call to KVM.
    pub(crate) fn kvm(call: &'static str) -> impl FnOnce(kvm_ioctls::Error) -> Self {
        move |error| Self::Kvm { call, error }
    }
}
