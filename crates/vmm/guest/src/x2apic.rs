//! The MSRs of an x2APIC that the guest uses and its host has (Intel SDM volume 3, 12.12).

/// The spurious vector. Without its enable bit the local vector table stays masked, and
/// messages are dropped.
pub const SPURIOUS: u32 = 0x80f;
/// Enabled, with vector 0xff.
pub const ENABLED: u64 = 0x1ff;
/// The timer's entry in the local vector table.
pub const LVT_TIMER: u32 = 0x832;
/// In that: periodic mode.
pub const PERIODIC: u32 = 1 << 17;
/// The count from which the timer counts down.
pub const INITIAL_COUNT: u32 = 0x838;
/// By what its input is divided.
pub const DIVIDE: u32 = 0x83e;
