#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod evaluate;
pub mod faults;
pub mod installation;
mod machine;
pub mod promql;
#[cfg(test)]
mod promtool;
pub mod report;
mod rules;
mod run;
mod series;
pub mod study;

pub use rules::{RULES, Rule};
pub use run::Run;
