//! What must be there soon, on a machine that may be busy with something else.

use crate::nested::checks::Check;

/// How often a disruption is made whose effects came right, and late.
const TRIES: usize = 3;

/// What one disruption came to.
pub(super) struct Try {
    pub(super) check: Check,
    /// It does not hold, and for nothing else than the time it took.
    pub(super) only_late: bool,
}

/// The first try in which nothing was late, or the last. What is wrong is
/// wrong at once: a machine that is busy explains what is late and no more.
pub(super) fn in_time(mut attempt: impl FnMut() -> Result<Try, String>) -> Result<Check, String> {
    let mut late: Vec<String> = Vec::new();
    loop {
        let Try { mut check, only_late } = attempt()?;
        if only_late && late.len() + 1 < TRIES {
            late.push(check.found);
            continue;
        }
        for found in late {
            check.found.push_str(&format!("; late before: {found}"));
        }
        return Ok(check);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The checks of some tries, by whether they hold and are only late.
    fn tried(tries: &[(bool, bool)]) -> (Check, usize) {
        let mut made = 0;
        let check = in_time(|| {
            let (holds, only_late) = tries[made];
            made += 1;
            let check = Check { what: "it".to_owned(), found: format!("try {made}"), holds };
            Ok(Try { check, only_late })
        });
        (check.unwrap(), made)
    }

    #[test]
    fn what_is_late_is_tried_again_and_told() {
        let (check, made) = tried(&[(false, true), (true, false)]);
        assert_eq!((check.holds, made), (true, 2));
        assert_eq!(check.found, "try 2; late before: try 1");
    }

    #[test]
    fn what_is_late_each_time_does_not_hold() {
        let (check, made) = tried(&[(false, true); 3]);
        assert_eq!((check.holds, made), (false, 3));
    }

    #[test]
    fn what_is_wrong_is_not_tried_again() {
        let (check, made) = tried(&[(false, false)]);
        assert_eq!((check.holds, made), (false, 1));
        assert_eq!(in_time(|| Err("gone".to_owned())), Err("gone".to_owned()));
    }
}
