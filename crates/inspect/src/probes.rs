//! Facts that are in no file, or in files too large or private to save: read
//! from the kernel, the processor or a program.
//!
//! Each probe returns the text form of a captured tree, so that live and
//! captured facts go through the same parsers.

pub(crate) mod acpi;
pub(crate) mod adjtimex;
pub(crate) mod chrony_config;
pub(crate) mod container;
#[cfg_attr(not(target_arch = "x86_64"), path = "probes/cpuid_elsewhere.rs")]
pub(crate) mod cpuid;
pub(crate) mod generic_timer;
pub(crate) mod kernel_log;
#[cfg_attr(not(target_arch = "x86_64"), path = "probes/kvm_elsewhere.rs")]
pub(crate) mod kvm;
pub(crate) mod ntp_config;
pub(crate) mod ptp;
pub mod pvclock_page;
pub(crate) mod rtc;
pub(crate) mod time_keepers;
pub(crate) mod unit_states;
pub(crate) mod vmclock;
