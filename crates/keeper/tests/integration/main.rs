//! The integration tests of this crate, in one program: each program is linked anew.

mod alternates;
mod discipline;
mod gate;
mod lone_server;
mod model;
mod never_worse;
mod promises;
mod restored;
