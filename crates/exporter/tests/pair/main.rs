//! Probes between nodes, and what they may meet.

mod hostile;
mod interleaved;
