//! The integration tests of this crate, in one program: each program is linked anew.

mod common;
mod cpuid;
mod dirty;
mod guest_tsc;
mod host_document;
mod hypercall;
mod hyperv;
mod kvm;
mod properties;
mod rates;
mod saved;
mod ticks;
mod transfer;
mod vmclock;
