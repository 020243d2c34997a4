//! What all tables are made of.

use instruments::figures::{three_digits, time};

use crate::output::table::Cell;

/// What the first column means.
pub(super) const CLOCK_BY: &str =
    "Clock by: kernel is KVM's kvm-clock; the others are Parachron's providers.";

/// As many digits as fit.
pub(super) fn seconds(value: f64) -> Cell {
    let digits = match value {
        long if long >= 999.95 => 0,
        long if long >= 99.995 => 1,
        _ => 2,
    };
    Cell::figure(value, digits)
}

/// 0 instead of -0.00.
pub(super) fn ppm(value: f64) -> Cell {
    let shown = if value.abs() < 0.005 { "0".into() } else { three_digits(value) };
    Cell::from(shown)
}

pub(super) fn nanos(ns: f64) -> Cell {
    Cell::from(time(ns))
}
