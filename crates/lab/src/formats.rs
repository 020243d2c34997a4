//! A report in the formats of test runners.

mod junit;
mod printable;
mod tap;

pub use junit::junit;
pub use tap::tap;

#[cfg(test)]
mod tests;
