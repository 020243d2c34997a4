//! The integration tests of this crate, in one program: each program is linked anew.

mod digests;
mod fleets;
mod jump;
mod line;
mod nonsense;
mod scenarios;
mod transcripts;
