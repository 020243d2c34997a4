//! Who is late, as findings: a cause, the figures that show it, a remedy.

mod remedies;
mod texts;

use facts::Facts;
use instruments::figures::{count, time};
use instruments::latency::cause::LatenessCause;
use instruments::latency::proof::{Proven, proven};
use instruments::latency::{FigureKind, Latency, Share, shares};

use crate::case::Case;
use crate::finding::{Finding, Severity};

/// A single delay of this, ns, is felt by people and by leases.
const FELT_NS: u64 = 10_000_000;

/// Delays that together take this part of the run disturb.
const DISTURBING: f64 = 0.01;

/// The causes found in a run, the worst first; within a severity, those that
/// took the most time first.
///
/// ```
/// # let facts = inspect::read(&inspect::tree::Tree::live());
/// let nothing = instruments::latency::Latency::default();
/// assert!(doctor::lateness::findings(&nothing, &facts).is_empty());
/// ```
pub fn findings(found: &Latency, facts: &Facts) -> Vec<Finding> {
    let case = Case::new(facts, None);
    let (shares, proven) = (shares(&found.delays), proven(found));
    let mut findings: Vec<(Severity, u64, Finding)> = LatenessCause::ALL
        .iter()
        .filter_map(|&cause| {
            let evidence = LatenessEvidence {
                found,
                cause,
                shares: shares.iter().filter(|share| share.cause == cause).collect(),
                proven: proven.iter().find(|proven| proven.cause == cause),
            };
            let lines = evidence.lines();
            if lines.is_empty() {
                return None;
            }
            let severity = evidence.severity();
            let finding = texts::finding(&case, cause, severity);
            let remedies = remedies::for_cause(&case, cause);
            let finding = remedies.into_iter().fold(finding, Finding::remedy);
            let finding = lines.into_iter().fold(finding, Finding::evidence);
            Some((severity, evidence.total_ns(), finding))
        })
        .collect();
    findings.sort_by_key(|(severity, total_ns, _)| std::cmp::Reverse((*severity, *total_ns)));
    findings.into_iter().map(|(.., finding)| finding).collect()
}

/// What shows one cause.
struct LatenessEvidence<'a> {
    found: &'a Latency,
    cause: LatenessCause,
    shares: Vec<&'a Share>,
    proven: Option<&'a Proven>,
}

impl LatenessEvidence<'_> {
    fn total_ns(&self) -> u64 {
        let short = self.found.short_gaps.iter().filter(|gaps| gaps.cause == self.cause);
        let short: u64 = short.map(|gaps| gaps.total_ns).sum();
        self.shares.iter().map(|share| share.total_ns).sum::<u64>().saturating_add(short)
    }

    fn severity(&self) -> Severity {
        let longest = self.shares.iter().map(|share| share.longest_ns).max().unwrap_or(0);
        let part = self.total_ns() as f64 / (self.found.over_s * 1e9).max(1.0);
        let lasting = self.proven.is_some_and(|proven| proven.with_ns >= 2.0 * proven.without_ns);
        // Nothing is to be done about what is not known.
        if self.cause == LatenessCause::Unexplained {
            return Severity::Note;
        }
        if longest >= FELT_NS
            || part >= DISTURBING
            || (lasting && self.cause != LatenessCause::TimerSlack)
        {
            Severity::Warning
        } else {
            Severity::Note
        }
    }

    fn lines(&self) -> Vec<String> {
        let mut lines: Vec<String> = self.shares.iter().map(|share| line(share)).collect();
        for short in self.found.short_gaps.iter().filter(|short| short.cause == self.cause) {
            // One in a while is the measurement's own.
            if short.gaps >= 10 {
                lines.push(format!(
                    "{}: {} short gaps, {} in total",
                    FigureKind::Gap.name(),
                    count(short.gaps),
                    time(short.total_ns as f64)
                ));
            }
        }
        lines.extend(self.proven.map(|proven| texts::comparison(self.found, proven)));
        if self.cause == LatenessCause::Stolen
            && let Some(stolen) = self.found.stolen.filter(|_| !lines.is_empty())
        {
            lines.push(format!(
                "/proc/stat: steal {:.1} % of all CPU time during the run",
                stolen.share * 100.0
            ));
        }
        lines
    }
}

/// `gap in a running loop: 23 delays, together 88.1 ms, the longest 4.10 ms`
fn line(share: &Share) -> String {
    format!(
        "{}: {} of the longest delays, {} in total, longest {}",
        share.kind.name(),
        count(share.delays),
        time(share.total_ns as f64),
        time(share.longest_ns as f64)
    )
}
