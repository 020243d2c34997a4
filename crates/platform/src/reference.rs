//! What a clock can be compared with: other computers and hardware clocks.
//!
//! Each reference is read around or within readings of this machine's clocks,
//! which the caller hands in as a `stamp`: all clocks are read at once, so
//! that one answer serves them all.

pub mod ntp;
pub mod phc;
pub mod rtc;
pub mod vmclock;
