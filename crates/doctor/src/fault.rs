//! Whose fault a finding is, in the words of all rules. Lines alone seldom show whether a
//! machine is virtual, so both are named.

/// The hardware, or what stands in for it; `guest`: whether this is a virtual machine.
pub(crate) fn hardware(guest: Option<bool>) -> &'static str {
    match guest {
        Some(true) => HOST,
        Some(false) => "At fault: the hardware or firmware.",
        None => "At fault: the hardware or firmware or, in a virtual machine, the host.",
    }
}

/// The host alone.
pub(crate) const HOST: &str = "At fault: the host.";

/// Programs and hosts that set a clock beside its daemon.
pub(crate) const OTHER_PROGRAM: &str =
    "At fault: another program on this machine's side, or the host's guest service.";

/// The clock that the TSC was compared with.
pub(crate) const REFERENCE: &str = "At fault: the reference, not the TSC.";

/// A reference that takes long to read.
pub(crate) const SLOW_REFERENCE: &str =
    "At fault: the reference, which is slow to read, or in a virtual machine the host.";

/// The hypervisor's page, as the reference.
pub(crate) const PAGE: &str = "At fault: the host, whose clock page is the reference.";

/// Ticks, as a reference or as time.
pub(crate) const TICKS: &str = "At fault: the reference or time base, timer ticks, which this \
     machine's load or drivers delay, or in a virtual machine the host.";

/// What held a check back.
pub(crate) const LOAD: &str =
    "At fault: this machine's kernel, load or hardware or, in a virtual machine, the host.";

/// A program that writes the CPU's registers.
pub(crate) const TOOL: &str = "At fault: probably this machine's program that writes the CPU's \
     frequency; otherwise the hardware or firmware.";

/// Lines that do not show it.
pub(crate) const NOT_SHOWN: &str = "At fault: not shown by these lines.";
