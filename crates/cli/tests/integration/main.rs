//! The program as people run it.

mod capture;
mod doctor;
mod fleet;
mod fleet_query;
mod no_getcpu;
mod status;
