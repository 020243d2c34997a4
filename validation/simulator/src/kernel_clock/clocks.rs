//! The kernel's clocks at one moment.

/// What programs read, ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KernelClocks {
    /// `CLOCK_REALTIME`, since 1970.
    pub realtime: i128,
    /// `CLOCK_MONOTONIC`: stands while the machine is suspended.
    pub monotonic: i128,
    /// `CLOCK_MONOTONIC_RAW`: not steered.
    pub raw: i128,
    /// `CLOCK_BOOTTIME`: goes on in suspend.
    pub boottime: i128,
    /// `CLOCK_TAI`: has no leap seconds.
    pub tai: i128,
}
