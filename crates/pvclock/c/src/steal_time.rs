//! Values of KVM's steal time page.

use pvclock::steal_time::StealInfo;

/// The contents of a steal time page, taken as one whole.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PvclockStealInfo {
    /// How long this vCPU was ready to run and waited for a CPU, nanoseconds.
    pub steal_ns: u64,
    /// Even; grows by two an update.
    pub version: u32,
    /// No flag is defined yet.
    pub flags: u32,
    /// The vCPU is off its CPU now.
    pub preempted: bool,
    /// The guest requests a flush of the TLB before the vCPU runs again.
    pub flush_tlb: bool,
}

impl From<StealInfo> for PvclockStealInfo {
    fn from(info: StealInfo) -> Self {
        Self {
            steal_ns: info.steal.0,
            version: info.version,
            flags: info.flags,
            preempted: info.preempted,
            flush_tlb: info.flush_tlb,
        }
    }
}
