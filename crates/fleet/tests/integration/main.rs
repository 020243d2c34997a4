//! The dashboard and the rules by their own tools.

mod alerts;
mod dashboard;
