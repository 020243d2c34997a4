//! Time in packets, and the time told to guests.

mod guests;
mod recorded;
