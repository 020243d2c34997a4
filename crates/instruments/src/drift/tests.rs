//! What an estimate promises, by simulated clocks of known error.

mod promises;
pub(super) mod simulated;

use super::*;

#[test]
fn an_interval_makes_a_verdict_sure_or_not() {
    let judge = |estimate, low, high| BudgetVerdict::judge(estimate, (low, high), 50.0);
    assert_eq!(judge(10.0, 5.0, 15.0), BudgetVerdict::Within);
    assert_eq!(judge(-49.0, -51.0, -47.0), BudgetVerdict::WithinUnsure);
    assert_eq!(judge(51.0, 49.0, 53.0), BudgetVerdict::OutsideUnsure);
    assert_eq!(judge(-60.0, -62.0, -58.0), BudgetVerdict::Outside);
    assert_eq!(judge(60.0, -62.0, 70.0), BudgetVerdict::OutsideUnsure);
    assert_eq!(judge(f64::NAN, f64::NAN, f64::NAN), BudgetVerdict::OutsideUnsure);
}
