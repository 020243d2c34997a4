//! Why a clock is not saved or restored.

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
    /// The saved clock cannot continue on this host.
    #[error(transparent)]
    Restore(#[from] host::RestoreError),
}

impl Error {
    /// For `map_err` on a call to KVM.
    pub(crate) fn call(call: &'static str) -> impl FnOnce(kvm_ioctls::Error) -> Self {
        move |error| Self::Call { call, error }
    }
}

impl From<host::RatioError> for Error {
    fn from(error: host::RatioError) -> Self {
        Self::Restore(error.into())
    }
}
