//! The program parachrond: each test starts processes of its own.

mod disk;
mod gate;
mod gated;
mod packaging;
mod running;
mod service;
mod users;
