//! What is wrong with a source that was named.

use sources::phc::{UnknownScale, advice};
use sources::{PhcSource, unique};

use crate::error::CliError;

/// Two sources are one, in that way.
pub(crate) fn would_vote_twice(cause: String) -> CliError {
    CliError::Failed { cause, remedy: unique::REMEDY.into() }
}

/// It is not known what `phc` counts.
pub(crate) fn unknown_scale(phc: &PhcSource, why: &UnknownScale) -> CliError {
    let (cause, remedy) = advice::unknown_scale(phc, why);
    CliError::Failed { cause, remedy }
}
