//! What chronyd believes, for a clock to be compared with.

pub mod chrony;
