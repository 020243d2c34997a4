//! A rule that old code still breaks: what is broken is counted, and the count may only fall.

use crate::diagnostic::Diagnostic;

/// A rule, and how often it may be broken.
#[derive(Debug)]
pub(super) struct Ratchet {
    pub(super) rule: &'static str,
    /// The file that states the number.
    pub(super) file: &'static str,
    pub(super) most: usize,
    /// By how many fewer there may be before the number has to be lowered.
    pub(super) slack: usize,
}

impl Ratchet {
    /// Nothing if as many were found as may be; all that were found if they are more, and where
    /// to lower the number if they are fewer.
    pub(super) fn hold(&self, found: Vec<Diagnostic>) -> Vec<Diagnostic> {
        let Self { rule, file, most, slack } = self;
        let count = found.len();
        if count > *most {
            let what = format!("{rule}: {count}, at most {most}");
            let summary = Diagnostic::new(file, 1, what, "fix those listed");
            return found.into_iter().chain([summary]).collect();
        }
        if count + slack < *most {
            let what = format!("{rule}: {count}, and {most} are allowed");
            let remedy = format!("lower the number of this ratchet to {count}");
            return vec![Diagnostic::new(file, 1, what, remedy)];
        }
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_may_only_fall() {
        let found = |count| vec![Diagnostic::new("a.rs", 1, "told", "write reported"); count];
        let ratchet = Ratchet { rule: "words", file: "rules.rs", most: 2, slack: 0 };
        assert_eq!(ratchet.hold(found(2)), []);
        let more = ratchet.hold(found(3));
        assert_eq!((more.len(), more[3].what.as_str()), (4, "words: 3, at most 2"));
        let fewer = ratchet.hold(found(1));
        assert_eq!(fewer[0].remedy, "lower the number of this ratchet to 1");
        assert_eq!(Ratchet { slack: 1, ..ratchet }.hold(found(1)), []);
        assert_eq!((more[3].path.as_str(), fewer[0].path.as_str()), ("rules.rs", "rules.rs"));
    }
}
