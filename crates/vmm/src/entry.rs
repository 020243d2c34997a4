//! Where the boot vCPU enters its guest.

/// Where a vCPU starts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EntryPoint {
    pub(crate) rip: u64,
    /// What the guest finds in RSI: the lab's its magic number, Linux its zero page.
    pub(crate) rsi: u64,
}
