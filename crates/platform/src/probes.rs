//! What is not in a file as it should leave the machine: asked of the kernel,
//! the processor or a program, or drawn from files too large or private.
//!
//! Each answers in the text form that a captured tree holds, so that live and
//! captured facts take the same way through the same parsers.

pub(crate) mod acpi;
pub(crate) mod adjtimex;
pub(crate) mod container;
pub(crate) mod cpuid;
pub(crate) mod kernel_log;
pub(crate) mod kvm;
pub(crate) mod ptp;
pub mod pvclock_page;
pub(crate) mod rtc;
pub(crate) mod time_keepers;
pub(crate) mod vmclock;
