#![doc = include_str!("../README.md")]

pub mod cost;
pub mod distribution;
pub mod drift;
pub mod figures;
pub mod granularity;
pub mod measurements;
pub mod offset;
pub mod order;
pub mod primes;
pub mod rate;
pub mod steps;
pub mod throughput;
