//! Alert rules and their states, as Prometheus has them.

use std::sync::LazyLock;

use fleet::{ALERTS, RECORDED};

use crate::evaluate::Evaluator;
use crate::promql::{Expr, Selector, parse};
use crate::series::LabelsId;

/// An alert rule.
#[derive(Debug)]
pub struct Rule {
    /// Its name.
    pub name: &'static str,
    /// In PromQL.
    pub text: &'static str,
    /// For so long, ms.
    pub lasts_ms: i64,
    /// In the same, as its file has it.
    pub lasts: &'static str,
    /// Of severity info: nobody is called.
    pub is_info: bool,
    expr: Expr,
}

/// Rules of others: name, expression, for.
///
/// prometheus/node_exporter docs/node-mixin/alerts/alerts.libsonnet, with its selector
/// empty. chrony_exporter has a rule that records the bound and no alert; beside it is
/// what the mixin asks of an offset (SuperQ/chrony_exporter README.md).
const OTHERS: [(&str, &str, &str); 3] = [
    (
        "NodeClockSkewDetected",
        "(node_timex_offset_seconds > 0.05 and deriv(node_timex_offset_seconds[5m]) >= 0) or \
         (node_timex_offset_seconds < -0.05 and deriv(node_timex_offset_seconds[5m]) <= 0)",
        "10m",
    ),
    (
        "NodeClockNotSynchronising",
        "min_over_time(node_timex_sync_status[5m]) == 0 and node_timex_maxerror_seconds >= 16",
        "10m",
    ),
    (
        "ChronyBound",
        "abs(chrony_tracking_last_offset_seconds) + chrony_tracking_root_dispersion_seconds \
         + chrony_tracking_root_delay_seconds * 0.5 > 0.05",
        "10m",
    ),
];

/// All rules, and how many selectors they have.
pub static RULES: LazyLock<(Vec<Rule>, usize)> = LazyLock::new(|| {
    let mut number = 0;
    let ours =
        ALERTS.iter().map(|alert| (alert.name, alert.when, alert.lasts, alert.severity == "info"));
    let others = OTHERS.into_iter().map(|(name, text, lasts)| (name, text, lasts, false));
    let rule = |(name, text, lasts, is_info)| {
        let mut expr = parsed(text, &mut number);
        with_recorded(&mut expr, &mut number);
        let lasts_ms = crate::promql::duration_ms(lasts).unwrap_or_else(|| panic!("{lasts}"));
        Rule { name, text, lasts_ms, lasts, is_info, expr }
    };
    let rules = ours.chain(others).map(rule).collect();
    (rules, number)
});

fn parsed(text: &str, number: &mut usize) -> Expr {
    parse(text, number).unwrap_or_else(|why| panic!("{text}: {why}"))
}

/// Puts what is recorded in the place of its name: it is recorded just before alerts are
/// evaluated, so it is the same.
fn with_recorded(expr: &mut Expr, number: &mut usize) {
    match expr {
        Expr::Number(_) => {}
        Expr::Call(_, of, _) => with_recorded(of, number),
        Expr::Binary(_, left, right, _) => {
            with_recorded(left, number);
            with_recorded(right, number);
        }
        Expr::Select(selector) => {
            if let Some(recorded) = RECORDED.iter().find(|recorded| recorded.name == selector.name)
            {
                let plain = Selector { number: selector.number, ..Selector::of(recorded.name) };
                assert_eq!(*selector, plain, "what is recorded is taken as it is");
                *expr = parsed(recorded.is, number);
            }
        }
    }
}

/// What a rule's alerts are in: since when, ms, and whether they fire.
#[derive(Debug, Default)]
struct State(Vec<(LabelsId, i64, bool)>);

/// All rules' states on one machine.
#[derive(Debug)]
pub(crate) struct Alerts {
    pub(crate) evaluator: Evaluator,
    states: Vec<State>,
}

impl Alerts {
    pub(crate) fn new() -> Self {
        let (rules, selectors) = &*RULES;
        let states = rules.iter().map(|_| State::default()).collect();
        Self { evaluator: Evaluator::new(*selectors), states }
    }

    /// Evaluates all rules; calls `fires` with the index of each that begins to fire.
    pub(crate) fn evaluate(&mut self, at_ms: i64, mut fires: impl FnMut(usize)) {
        for (index, (rule, state)) in RULES.0.iter().zip(&mut self.states).enumerate() {
            let found = self.evaluator.value(&rule.expr, at_ms);
            state.0.retain(|(id, ..)| found.iter().any(|(other, _)| other == id));
            for (id, _) in found {
                let at = state.0.iter().position(|(other, ..)| *other == id);
                let at = at.unwrap_or_else(|| {
                    state.0.push((id, at_ms, false));
                    state.0.len() - 1
                });
                let (_, since_ms, is_firing) = &mut state.0[at];
                if !*is_firing && at_ms - *since_ms >= rule.lasts_ms {
                    *is_firing = true;
                    fires(index);
                }
            }
        }
    }

    /// How many alerts of each rule fire.
    #[cfg(test)]
    pub(crate) fn firing(&self) -> impl Iterator<Item = (&'static str, usize)> {
        let count = |state: &State| state.0.iter().filter(|(.., fires)| *fires).count();
        RULES.0.iter().zip(&self.states).map(move |(rule, state)| (rule.name, count(state)))
    }
}
