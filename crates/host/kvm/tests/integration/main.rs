//! The integration tests of this crate, in one program: each program is linked anew.

mod guide;
mod model;
mod oracle;
mod saved;
