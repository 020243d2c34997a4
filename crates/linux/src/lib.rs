//! Linux's system calls on clocks, thin: each returns what the kernel
//! returned, or its error. Facts are made of that above.

pub mod adjtimex;
pub mod clock;
pub mod counter;
pub mod cpus;
pub mod journal;
pub mod name_lock;
pub mod phc;
pub mod service_manager;
pub mod vmclock;
pub mod wait;
