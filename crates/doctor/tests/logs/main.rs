//! The verdicts on real logs, against truths written by hand: testdata/verdicts and
//! testdata/logs.

mod carried;
mod corpus;
mod judge;
mod mutations;
mod public;
mod verdicts;

use std::sync::OnceLock;

use facts::kernel::LogEvent;
use facts::kernel::pasted::PastedLog;
use facts::{Fact, Facts};
use inspect::tree::Tree;

use doctor::finding::Finding;

/// What `parachron doctor --log` reports of a log.
fn findings(log: &str) -> Vec<Finding> {
    let mut pasted = PastedLog::default();
    pasted.push(log.as_bytes());
    let log = pasted.finish().log;
    static EMPTY: OnceLock<Facts> = OnceLock::new();
    let empty = || inspect::read(&Tree::empty().expect("/dev/null"));
    let mut facts = EMPTY.get_or_init(empty).clone();
    let switched = log.iter().rev().find_map(|line| match &line.event {
        LogEvent::Switched { to } => Some(to.clone()),
        _ => None,
    });
    if let Some(current) = switched {
        facts.clocksources.current = Fact::Known(current);
    }
    facts.kernel.log = Fact::Known(log);
    let of_logs = |finding: &Finding| doctor::rules::OF_LOGS.contains(&finding.rule.as_str());
    doctor::diagnose(&facts, None).findings.into_iter().filter(of_logs).collect()
}

/// A finding as one text, its `what` first.
fn text(finding: &Finding) -> String {
    let mut lines = vec![finding.what.clone()];
    lines.extend(finding.evidence.iter().cloned());
    lines.push(finding.why.clone());
    for remedy in &finding.remedies {
        lines.extend([Some(remedy.what.clone()), remedy.command.clone()].into_iter().flatten());
    }
    lines.join("\n")
}
