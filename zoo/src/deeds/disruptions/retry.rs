//! Checks with a time limit, on a machine that may be busy otherwise.

use crate::checks::Check;

/// How often a disruption is caused whose effects were correct but late.
const ATTEMPTS: usize = 3;

/// The result of one disruption.
pub(super) struct Attempt {
    pub(super) check: Check,
    /// It failed only because it took too long.
    pub(super) only_late: bool,
}

/// The first attempt in which nothing was late, or the last. A wrong result is
/// not repeated: a busy machine explains a delay and nothing else.
pub(super) fn retry_if_late(
    mut attempt: impl FnMut() -> Result<Attempt, String>,
) -> Result<Check, String> {
    let mut late: Vec<Check> = Vec::new();
    loop {
        let Attempt { mut check, only_late } = attempt()?;
        if only_late && late.len() + 1 < ATTEMPTS {
            late.push(check);
            continue;
        }
        for Check { found, told, .. } in late {
            check.found.push_str(&format!("; late in an earlier attempt: {found}"));
            // The table of what was told counts it, whatever came after.
            check.late.extend(told);
        }
        return Ok(check);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The check of some attempts, by whether they pass and are only late.
    fn run(attempts: &[(bool, bool)]) -> (Check, usize) {
        let mut made = 0;
        let check = retry_if_late(|| {
            let (passed, only_late) = attempts[made];
            made += 1;
            let told = [format!("pause {made}")];
            let check = Check::new("it", format!("attempt {made}"), passed).told("stop", &told);
            Ok(Attempt { check, only_late })
        });
        (check.unwrap(), made)
    }

    #[test]
    fn a_late_attempt_is_repeated_and_reported() {
        let (check, made) = run(&[(false, true), (true, false)]);
        assert_eq!((check.passed, made), (true, 2));
        assert_eq!(check.found, "attempt 2; late in an earlier attempt: attempt 1");
        let told = |kinds: &str| ("stop".to_owned(), kinds.to_owned());
        assert_eq!((check.told, check.late), (Some(told("pause 2")), vec![told("pause 1")]));
    }

    #[test]
    fn an_attempt_that_is_late_each_time_fails() {
        let (check, made) = run(&[(false, true); 3]);
        assert_eq!((check.passed, made), (false, 3));
    }

    #[test]
    fn a_wrong_result_is_not_repeated() {
        let (check, made) = run(&[(false, false)]);
        assert_eq!((check.passed, made), (false, 1));
        assert_eq!(retry_if_late(|| Err("gone".to_owned())), Err("gone".to_owned()));
    }
}
