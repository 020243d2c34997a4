//! Rules: facts and measurements in, findings out.

pub mod finding;
