//! What one probe shows, and what a node says of itself.

use serde::{Deserialize, Serialize};

/// Times are before the year 2116, and offsets shorter than this: 146 years, ns. Sums
/// of two do not leave 64 bits.
pub const LONGEST_NS: i64 = 1 << 62;

/// A probe's four times, as a line of JSON: of `from`'s clock when it sent and when the
/// reply arrived, of `to`'s when the request arrived and when it replied; ns since 1970.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Probe {
    /// Who asked.
    pub from: String,
    /// Who replied.
    pub to: String,
    /// `from` sent.
    pub t1_ns: i64,
    /// `to` received.
    pub t2_ns: i64,
    /// `to` sent.
    pub t3_ns: i64,
    /// `from` received.
    pub t4_ns: i64,
}

/// By how much `to`'s clock was ahead of `from`'s: from `min_ns` to `max_ns`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbeSample {
    /// Whose clock it is seen from.
    pub from: String,
    /// Whose clock is seen.
    pub to: String,
    /// At least so much ahead, ns.
    pub min_ns: i64,
    /// At most.
    pub max_ns: i64,
    /// `from`'s clock then, ns since 1970.
    pub at_ns: i64,
}

/// What a node says of its clock: `offset_ns` is to be added to it to have UTC, and the
/// truth is within ± `bound_ns` of that.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// Who says so.
    pub node: String,
    /// UTC minus its clock, ns.
    pub offset_ns: i64,
    /// That is right to so much, ns.
    pub bound_ns: i64,
    /// Its clock then, ns since 1970.
    pub at_ns: i64,
}

/// Why a probe, sample or claim says nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Invalid {
    /// A time or an offset that no clock shows.
    #[error("{0} ns is out of range")]
    OutOfRange(i64),
    /// Less time went by between sending and receiving than the other took to reply: a
    /// clock was set meanwhile.
    #[error("its bounds contradict each other by {by_ns} ns")]
    Contradiction {
        /// By so much.
        by_ns: i64,
    },
    /// A node was compared with itself, or has no name, or a long one.
    #[error("a node needs a name of 1 to 253 characters, and another to be compared with")]
    Names,
}

impl Probe {
    /// The bounds of the offset. A packet takes some time and not less than none: `to`
    /// received no earlier than `from` sent, and `from` no earlier than `to` replied (RFC
    /// 5905, section 8). Sent at 100 and received at 108, replied at 109 and received at
    /// 103: `to` is ahead by 6 to 8.
    ///
    /// # Errors
    /// A time is out of range, or one clock was set meanwhile.
    pub fn sample(self) -> Result<ProbeSample, Invalid> {
        let Self { from, to, t1_ns, t2_ns, t3_ns, t4_ns } = self;
        if let Some(bad) = [t1_ns, t2_ns, t3_ns, t4_ns]
            .into_iter()
            .find(|time_ns| !(0..LONGEST_NS).contains(time_ns))
        {
            return Err(Invalid::OutOfRange(bad));
        }
        let sample =
            ProbeSample { from, to, min_ns: t3_ns - t4_ns, max_ns: t2_ns - t1_ns, at_ns: t4_ns };
        sample.check().map(|()| sample)
    }
}

impl ProbeSample {
    /// Whether it says something.
    ///
    /// # Errors
    /// Why it does not.
    pub fn check(&self) -> Result<(), Invalid> {
        let Self { from, to, min_ns, max_ns, at_ns } = self;
        let is_name = |name: &str| (1..=253).contains(&name.len());
        if from == to || !is_name(from) || !is_name(to) {
            return Err(Invalid::Names);
        }
        in_range(&[*min_ns, *max_ns, *at_ns])?;
        if min_ns > max_ns {
            return Err(Invalid::Contradiction { by_ns: min_ns.saturating_sub(*max_ns) });
        }
        Ok(())
    }
}

impl Claim {
    /// Whether it says something.
    ///
    /// # Errors
    /// Why it does not.
    pub fn check(&self) -> Result<(), Invalid> {
        in_range(&[self.offset_ns, self.bound_ns, self.at_ns])?;
        if self.bound_ns < 0 { Err(Invalid::OutOfRange(self.bound_ns)) } else { Ok(()) }
    }
}

fn in_range(figures: &[i64]) -> Result<(), Invalid> {
    let bad = figures.iter().find(|ns| !(-LONGEST_NS..=LONGEST_NS).contains(*ns));
    bad.map_or(Ok(()), |ns| Err(Invalid::OutOfRange(*ns)))
}
