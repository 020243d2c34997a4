//! A seed as people tell it to each other.

use core::fmt;
use core::str::FromStr;

use crate::Impossible;
use crate::scenario::{ReplayVersion, STREAMS};

/// Which fleet of all that a scenario describes. It is told with the version of the random
/// streams, as under another one it is another fleet's.
///
/// ```
/// use simulator::seed::Seed;
///
/// let seed: Seed = "7".parse()?;
/// let told = seed.to_string();
/// assert!(told.starts_with("7v"));
/// assert_eq!(told.parse(), Ok(seed));
/// let why = "7v0".parse::<Seed>().unwrap_err();
/// assert!(why.to_string().contains("version 0 of the random streams"));
/// # Ok::<(), simulator::seed::NoSeed>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seed(pub u64);

/// Why a text is no seed of this program.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum NoSeed {
    /// It is no number, or of no version.
    Text,
    /// It is of other streams: [`Impossible::OtherStreams`].
    Impossible(Impossible),
}

impl FromStr for Seed {
    type Err = NoSeed;

    fn from_str(text: &str) -> Result<Self, NoSeed> {
        let (number, version) = match text.split_once('v') {
            Some((number, version)) => (number, version.parse().map_err(|_| NoSeed::Text)?),
            None => (text, STREAMS.0),
        };
        let seed = number.parse().map_err(|_| NoSeed::Text)?;
        if ReplayVersion(version) != STREAMS {
            return Err(NoSeed::Impossible(Impossible::OtherStreams(version)));
        }
        Ok(Self(seed))
    }
}

impl fmt::Display for Seed {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{}v{}", self.0, STREAMS.0)
    }
}

impl fmt::Display for NoSeed {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text => write!(
                to,
                "expected a seed from 0 to 2⁶⁴ − 1, alone or followed by the version of the random \
                 streams, such as 7v{}",
                STREAMS.0
            ),
            Self::Impossible(why) => why.fmt(to),
        }
    }
}

impl core::error::Error for NoSeed {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_read_with_its_version_or_without() {
        let read = |text: &str| text.parse::<Seed>();
        let most = format!("{}v{}", u64::MAX, STREAMS.0);
        assert_eq!(read(&most), Ok(Seed(u64::MAX)));
        assert_eq!(Seed(u64::MAX).to_string(), most);
        for text in ["", "v2", "7v", "-1", "7v-1", "7 v2", "18446744073709551616", "7v2v2"] {
            assert_eq!(read(text), Err(NoSeed::Text), "{text:?}");
        }
        assert_eq!(read("7v1"), Err(NoSeed::Impossible(Impossible::OtherStreams(1))));
    }
}
