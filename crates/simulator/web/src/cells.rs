//! A guest's errors over a run, as a row of cells.

use simulator::Look;

/// The worst error in each part of the run, s.
#[derive(Debug)]
pub(crate) struct Cells {
    span_ns: i64,
    worst_s: Vec<f32>,
    /// The last cell that has one, and its last error, unless the guest is away.
    last: Option<(usize, f32)>,
}

impl Cells {
    pub(crate) fn new(span_ns: i64, count: usize) -> Self {
        Self { span_ns, worst_s: vec![f32::NAN; count], last: None }
    }

    pub(crate) fn look(&mut self, look: Look) {
        let count = self.worst_s.len();
        let at = i128::from(look.at_ns) * count as i128 / i128::from(self.span_ns);
        let at = (at as usize).min(count - 1);
        let error_s = (look.error_ns as f64 / 1e9) as f32;
        // A clock that nobody looked at is as it was.
        if let Some((from, since_s)) = self.last {
            for cell in from + 1..at {
                self.worsen(cell, since_s);
            }
        }
        self.worsen(at, error_s);
        // What happens is the last that is seen before the guest is away.
        self.last = look.happens.is_none().then_some((at, error_s));
    }

    fn worsen(&mut self, cell: usize, error_s: f32) {
        let worst_s = &mut self.worst_s[cell];
        if worst_s.is_nan() || worst_s.abs() < error_s.abs() {
            *worst_s = error_s;
        }
    }

    pub(crate) fn into_inner(self) -> Vec<f32> {
        self.worst_s
    }
}

#[cfg(test)]
mod tests {
    use simulator::fault::FaultKind;

    use super::*;

    #[test]
    fn cells_hold_the_worst_and_none_while_away() {
        let mut cells = Cells::new(1000, 10);
        let look = |at_ns, error_s: i64, happens| Look {
            at_ns,
            utc_ns: at_ns,
            error_ns: error_s * 1_000_000_000,
            happens,
        };
        for (at_ns, error_s, happens) in
            [(0, 1, None), (50, -3, None), (350, 2, Some(FaultKind::Pause)), (750, 4, None)]
        {
            cells.look(look(at_ns, error_s, happens));
        }
        // Beyond the end is the end.
        cells.look(look(1000, 0, None));
        let nan = f32::NAN;
        let expected = [-3.0, -3.0, -3.0, 2.0, nan, nan, nan, 4.0, 4.0, 0.0];
        assert_eq!(format!("{:?}", cells.into_inner()), format!("{expected:?}"));
    }
}
