//! Linux's system calls on clocks, thin: each returns what the kernel
//! returned, or its error. Facts are made of that above.

pub mod clock;
pub mod clock_set;
pub mod counter;
pub mod cpus;
pub mod generations;
pub mod journal;
pub mod name_lock;
pub mod reread;
pub mod service_manager;
pub mod wait;
