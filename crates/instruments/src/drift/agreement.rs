//! Which of several references can be right together.
//!
//! Marzullo's algorithm as NTP has it (RFC 5905, section 11.2.1): each
//! reference bounds the true time; the true time is taken to be where most of
//! the bounds overlap, and a reference outside is a
//! falseticker. A majority must agree: of two that contradict each other
//! it is unknown which is wrong.

use units::Interval;

/// The references' agreement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Agreement {
    /// A majority, or all: who belongs to it, in order.
    Majority(Vec<bool>),
    /// No majority has anything in common.
    None,
}

/// Compares the bounds that each gives for one thing.
pub fn agreement(bounds: &[Interval<f64>]) -> Agreement {
    let holds = |bounds: &Interval<f64>, at: f64| bounds.low <= at && at <= bounds.high;
    let support = |at: f64| bounds.iter().filter(|one| holds(one, at)).count();
    // Where most overlap, one of them begins.
    let best = bounds.iter().map(|one| one.low).max_by_key(|low| support(*low));
    match best {
        Some(at) if 2 * support(at) > bounds.len() => {
            Agreement::Majority(bounds.iter().map(|one| holds(one, at)).collect())
        }
        _ => Agreement::None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agreement_of(bounds: &[(f64, f64)]) -> Agreement {
        let bounds: Vec<Interval<f64>> =
            bounds.iter().map(|&(low, high)| Interval { low, high }).collect();
        agreement(&bounds)
    }

    #[test]
    fn a_majority_shows_which_is_wrong() {
        let all = agreement_of(&[(0.0, 2.0), (1.0, 3.0), (1.5, 9.0)]);
        assert_eq!(all, Agreement::Majority(vec![true, true, true]));
        let one = agreement_of(&[(0.0, 2.0), (500.0, 501.0), (1.0, 3.0)]);
        assert_eq!(one, Agreement::Majority(vec![true, false, true]));
    }

    #[test]
    fn two_that_contradict_leave_it_open() {
        assert_eq!(agreement_of(&[(0.0, 1.0), (2.0, 3.0)]), Agreement::None);
        assert_eq!(agreement_of(&[(0.0, 1.0), (1.0, 3.0)]), Agreement::Majority(vec![true, true]));
        assert_eq!(
            agreement_of(&[(0.0, 1.0), (0.0, 1.0), (5.0, 6.0), (5.0, 6.0)]),
            Agreement::None
        );
        assert_eq!(agreement_of(&[]), Agreement::None);
        assert_eq!(agreement_of(&[(f64::NAN, f64::NAN)]), Agreement::None);
    }
}
