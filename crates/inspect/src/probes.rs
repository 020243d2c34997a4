//! Facts that are in no file, or in files too large or private to save: read
//! from the kernel, the processor or a program.
//!
//! Each probe returns the text form of a captured tree, so that live and
//! captured facts go through the same parsers.

pub(crate) mod acpi;
pub(crate) mod adjtimex;
pub(crate) mod chrony_config;
pub(crate) mod container;
pub(crate) mod cpuid;
pub(crate) mod kernel_log;
pub(crate) mod kvm;
pub(crate) mod ptp;
pub mod pvclock_page;
pub(crate) mod rtc;
pub(crate) mod time_keepers;
pub(crate) mod vmclock;
