//! What the CPU and Linux say about this machine's clocks, and how to set them.

pub mod fact;
pub mod facts;
pub mod tree;
