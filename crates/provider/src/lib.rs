//! What a host does for its guests' clocks, as a state machine: events come
//! in, pages are written and a next deadline comes out. No hypervisor, clock,
//! thread or file is in here, so any VMM can use it and any test can drive it.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod event;
pub mod kind;
pub mod memory;
pub mod reading;

pub use event::{Event, VcpuId};
pub use kind::{GuestSystem, Kind};
pub use memory::{GuestAddress, GuestMemory, Misplaced};
pub use reading::{Reading, UnixTime};
