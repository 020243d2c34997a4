//! Expressions over series, as Prometheus 2.42 evaluates them
//! (promql/engine.go and promql/functions.go; read, not copied).

use crate::promql::{Expr, Function, Operator, Selector};
use crate::series::{Database, LabelsId, Series};

/// One value, of these labels.
pub(crate) type Element = (LabelsId, f64);

/// A machine's series, and which of them each selector takes.
#[derive(Debug, Default)]
pub(crate) struct Evaluator {
    pub(crate) database: Database,
    taken: Vec<Taken>,
}

/// What a selector takes, of so many series.
#[derive(Debug, Clone, Default)]
struct Taken {
    looked_at: usize,
    series: Vec<usize>,
}

impl Evaluator {
    /// With as many selectors as there are.
    pub(crate) fn new(selectors: usize) -> Self {
        Self { taken: vec![Taken::default(); selectors], ..Self::default() }
    }

    /// The value at a time.
    pub(crate) fn value(&mut self, of: &Expr, at_ms: i64) -> Vec<Element> {
        match of {
            Expr::Number(_) => Vec::new(),
            Expr::Select(selector) => {
                let at_ms = at_ms - selector.offset_ms;
                self.of_each(selector, |series| series.at(at_ms))
            }
            Expr::Call(function, of, number) => self.call(*function, of, *number, at_ms),
            Expr::Binary(operator, left, right, on) => {
                let left = self.value(left, at_ms);
                // What is empty stays so, but for `or`.
                if left.is_empty() && *operator != Operator::Or {
                    return left;
                }
                if let Expr::Number(right) = **right {
                    return with_number(*operator, left, right);
                }
                let right = self.value(right, at_ms);
                self.joined(*operator, left, &right, on.as_deref())
            }
        }
    }

    /// The value of each series that a selector takes.
    fn of_each(
        &mut self,
        selector: &Selector,
        value: impl Fn(&Series) -> Option<f64>,
    ) -> Vec<Element> {
        let taken = &mut self.taken[selector.number];
        let new = taken.looked_at..self.database.series.len();
        taken.looked_at = new.end;
        for index in new {
            let series = &self.database.series[index];
            let labels = self.database.labels(series.labels);
            let value = |name: &str| {
                labels.iter().find(|(label, _)| label == name).map_or("", |(_, value)| value)
            };
            let takes =
                selector.matchers.iter().all(|matcher| matcher.takes(value(&matcher.label)));
            if series.name == selector.name && takes {
                taken.series.push(index);
            }
        }
        let all = taken.series.iter().map(|index| &self.database.series[*index]);
        all.filter_map(|series| Some((series.labels, value(series)?))).collect()
    }

    fn call(
        &mut self,
        function: Function,
        of: &Expr,
        number: Option<f64>,
        at_ms: i64,
    ) -> Vec<Element> {
        let (Expr::Select(selector), Some(range_ms)) = (of, range_ms(of)) else {
            let mut all = self.value(of, at_ms);
            let change = |value: f64| match function {
                Function::Abs => value.abs(),
                Function::ClampMin => value.max(number.unwrap_or(f64::NEG_INFINITY)),
                _ => f64::NAN,
            };
            all.iter_mut().for_each(|(_, value)| *value = change(*value));
            return all;
        };
        let to_ms = at_ms - selector.offset_ms;
        let from_ms = to_ms - range_ms;
        self.of_each(selector, |series| {
            let samples = || series.between(from_ms, to_ms);
            match function {
                Function::Increase => increase(samples(), from_ms, to_ms),
                Function::Rate => {
                    Some(increase(samples(), from_ms, to_ms)? / (range_ms as f64 / 1000.0))
                }
                Function::Deriv => slope(samples()),
                Function::MaxOverTime => samples().map(|(_, value)| value).reduce(f64::max),
                _ => samples().map(|(_, value)| value).reduce(f64::min),
            }
        })
    }

    fn joined(
        &self,
        operator: Operator,
        mut left: Vec<Element>,
        right: &[Element],
        on: Option<&[String]>,
    ) -> Vec<Element> {
        let is_same = |one: LabelsId, other: LabelsId| match on {
            None => one == other,
            Some(on) => {
                let value = |id| {
                    let labels = self.database.labels(id);
                    move |name: &String| labels.iter().find(|(label, _)| label == name)
                };
                let (one, other) = (value(one), value(other));
                on.iter().all(|name| one(name) == other(name))
            }
        };
        let has = |all: &[Element], id| all.iter().any(|(other, _)| is_same(id, *other));
        match operator {
            Operator::Or => {
                let more: Vec<_> = right.iter().filter(|(id, _)| !has(&left, *id)).collect();
                left.extend(more);
            }
            Operator::And => left.retain(|(id, _)| has(right, *id)),
            Operator::Unless => left.retain(|(id, _)| !has(right, *id)),
            _ => {
                let pair = |(id, value): Element| {
                    let (_, other) = right.iter().find(|(other, _)| is_same(id, *other))?;
                    Some((id, applied(operator, value, *other)?))
                };
                left = left.into_iter().filter_map(pair).collect();
            }
        }
        left
    }
}

fn range_ms(of: &Expr) -> Option<i64> {
    let Expr::Select(selector) = of else { return None };
    selector.range_ms
}

fn with_number(operator: Operator, left: Vec<Element>, right: f64) -> Vec<Element> {
    let value = |(id, left)| Some((id, applied(operator, left, right)?));
    left.into_iter().filter_map(value).collect()
}

/// Two values together: a comparison keeps the left one, or nothing.
fn applied(operator: Operator, left: f64, right: f64) -> Option<f64> {
    let kept = |is: bool| is.then_some(left);
    match operator {
        Operator::Add => Some(left + right),
        Operator::Subtract => Some(left - right),
        Operator::Multiply => Some(left * right),
        Operator::Divide => Some(left / right),
        #[expect(clippy::float_cmp, reason = "so does Prometheus")]
        Operator::Equal => kept(left == right),
        Operator::Greater => kept(left > right),
        Operator::Less => kept(left < right),
        Operator::GreaterOrEqual => kept(left >= right),
        Operator::LessOrEqual => kept(left <= right),
        Operator::Or | Operator::And | Operator::Unless => None,
    }
}

/// By how much a counter grew in a window: what the samples show, and as much more as
/// the window is longer, up to half an interval where they do not reach its end.
///
/// 0, 60, 120 at 20, 80 and 140 s of 0 to 160 s: 120 over 120 s, and 20 s are missing
/// at the end, so 140; none at the begin, as it was not below 0 before.
fn increase(samples: impl Iterator<Item = (i64, f64)>, from_ms: i64, to_ms: i64) -> Option<f64> {
    let (mut first, mut last, mut count) = (None, (0, 0.0), 0_u32);
    let mut grown = 0.0;
    for (at_ms, value) in samples {
        let (first_ms, first_value) = *first.get_or_insert((at_ms, value));
        // A counter that starts anew was 0 before.
        if count > 0 && value < last.1 {
            grown += last.1;
        }
        last = (at_ms, value);
        count += 1;
        first = Some((first_ms, first_value));
    }
    let (first_ms, first_value) = first.filter(|_| count > 1)?;
    grown += last.1 - first_value;
    let seconds = |ms: i64| ms as f64 / 1000.0;
    let sampled_s = seconds(last.0 - first_ms);
    let interval_s = sampled_s / f64::from(count - 1);
    let mut before_s = seconds(first_ms - from_ms);
    if grown > 0.0 && first_value >= 0.0 {
        // It was not below 0.
        before_s = before_s.min(sampled_s * (first_value / grown));
    }
    let reach = |missing_s: f64| {
        if missing_s < interval_s * 1.1 { missing_s } else { interval_s / 2.0 }
    };
    let covered_s = sampled_s + reach(before_s) + reach(seconds(to_ms - last.0));
    Some(grown * (covered_s / sampled_s))
}

/// The slope of the line through samples, a second.
fn slope(samples: impl Iterator<Item = (i64, f64)> + Clone) -> Option<f64> {
    let (begin_ms, constant) = samples.clone().next()?;
    let (mut n, mut x, mut y, mut xy, mut xx, mut is_constant) = (0.0, 0.0, 0.0, 0.0, 0.0, true);
    for (at_ms, value) in samples {
        let at_s = (at_ms - begin_ms) as f64 / 1000.0;
        is_constant &= value.to_bits() == constant.to_bits();
        n += 1.0;
        x += at_s;
        y += value;
        xy += at_s * value;
        xx += at_s * at_s;
    }
    if n < 2.0 {
        return None;
    }
    if is_constant {
        return Some(0.0);
    }
    Some((xy - x * y / n) / (xx - x * x / n))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grown(values: &[f64], to_ms: i64) -> Option<f64> {
        let samples = (0..).map(|n| 20_000 + n * 60_000).zip(values.iter().copied());
        increase(samples, 0, to_ms)
    }

    #[test]
    fn an_increase_reaches_the_ends_of_its_window() {
        for (values, to_s, expected) in [
            (&[0.0, 60.0, 120.0][..], 160, Some(140.0)),
            (&[1000.0, 1060.0, 1120.0], 160, Some(160.0)),
            // 90 s are missing at the end, more than 66 s: half an interval.
            (&[1000.0, 1060.0, 1120.0], 230, Some(170.0)),
            // 30, anew, 60.
            (&[1000.0, 1030.0, 60.0], 160, Some(120.0)),
            (&[5.0, 5.0], 100, Some(0.0)),
            (&[5.0], 100, None),
        ] {
            let found = grown(values, to_s * 1000);
            assert!(
                match (found, expected) {
                    (Some(found), Some(expected)) => f64::abs(found - expected) < 1e-9,
                    (found, expected) => found == expected,
                },
                "{values:?}: {found:?}"
            );
        }
    }

    #[test]
    fn a_slope_is_of_the_line_through_all() {
        let slope = |values: &[f64]| slope((0..).map(|n| n * 60_000).zip(values.iter().copied()));
        assert_eq!(slope(&[1.0]), None);
        assert_eq!(slope(&[0.3, 0.3, 0.3]), Some(0.0));
        // Least squares: (0 - 1) * -60 + (5 - 1) * 60 over 2 * 60².
        assert!((slope(&[0.0, -2.0, 5.0]).unwrap() - 300.0 / 7200.0).abs() < 1e-12);
    }
}
