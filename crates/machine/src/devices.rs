//! The timers and clocks of a PC, each a set of registers that is handed the
//! time: no device reads a clock by itself.
