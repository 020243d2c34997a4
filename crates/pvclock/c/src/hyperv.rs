//! Values of Hyper-V's reference TSC page.

use pvclock::hyperv::ReferenceInfo;

/// The contents of Hyper-V's reference TSC page, taken as one whole.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PvclockHypervInfo {
    /// Units of 100 ns a cycle, times 2^64.
    pub scale: u64,
    /// The time at TSC 0, units of 100 ns.
    pub offset_100ns: i64,
    /// Another number at each update; never 0 and never 0xFFFFFFFF.
    pub sequence: u32,
}

impl From<ReferenceInfo> for PvclockHypervInfo {
    fn from(info: ReferenceInfo) -> Self {
        Self { scale: info.scale.raw(), offset_100ns: info.offset_100ns, sequence: info.sequence }
    }
}
