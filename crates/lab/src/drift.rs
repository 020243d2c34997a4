//! Not made yet.

use crate::bench::Bench;
use crate::run::Found;
use crate::settings::{LabError, Progress};

pub(crate) fn run(_: &Bench<'_>, _: &mut dyn Progress) -> Result<Found, LabError> {
    Err(LabError::NotMade)
}
