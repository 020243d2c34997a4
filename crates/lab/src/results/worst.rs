//! The figure of an experiment that is furthest from what it should be.

use super::check::Verdict;
use super::report::{Findings, Outcome};
use super::rows::{Agreement, Cost, Drift, Monotonic, Offset, Restore};

/// Rows with a larger uncertainty are left out.
const CERTAIN_PPM: f64 = 200.0;

/// The worst row of an experiment, or what replaces it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Worst<'r> {
    /// The largest error against theory, of rows that are certain enough.
    Drift(&'r Drift),
    /// Rows of events that could not be caused here, of all.
    NotCaused(usize, usize),
    /// The most expensive clock.
    Cost(&'r Cost),
    /// The largest step backward.
    Monotonic(&'r Monotonic),
    /// The largest offset.
    Offset(&'r Offset),
    /// The largest error after a restore.
    Restore(&'r Restore),
    /// The largest difference between two pages.
    Agreement(&'r Agreement),
    /// The first check that failed.
    Failed(&'r str),
}

impl Outcome {
    /// The worst of its figures, if it has any.
    pub fn worst(&self) -> Option<Worst<'_>> {
        match &self.findings {
            Findings::Drift(rows) => {
                let certain = rows.iter().filter(|row| row.uncertainty_ppm <= CERTAIN_PPM);
                largest(certain, Drift::error_ppm).map(Worst::Drift)
            }
            Findings::Updates(rows) => {
                let count = rows.iter().filter(|row| row.not_caused.is_some()).count();
                (count > 0).then_some(Worst::NotCaused(count, rows.len()))
            }
            Findings::Cost(rows) => largest(rows.iter(), |row| row.least_ns).map(Worst::Cost),
            Findings::Monotonic(rows) => {
                largest(rows.iter(), |row| row.worst_ns as f64).map(Worst::Monotonic)
            }
            Findings::Offset(rows) => {
                largest(rows.iter(), |row| row.offset_ns.median).map(Worst::Offset)
            }
            Findings::Restore(rows) => largest(rows.iter(), Restore::error_s).map(Worst::Restore),
            Findings::Agreement(rows) => {
                largest(rows.iter(), Agreement::worst_ns).map(Worst::Agreement)
            }
            Findings::Conformance => {
                let failed = self.checks.iter().find(|check| check.verdict == Verdict::Failed);
                failed.map(|check| Worst::Failed(&check.name))
            }
        }
    }
}

/// The row with the largest figure, either way.
fn largest<T>(mut rows: impl Iterator<Item = T>, figure: impl Fn(T) -> f64) -> Option<T>
where
    T: Copy,
{
    let first = rows.next()?;
    let larger = |a: T, b: T| if figure(b).abs() >= figure(a).abs() { b } else { a };
    Some(rows.fold(first, larger))
}
