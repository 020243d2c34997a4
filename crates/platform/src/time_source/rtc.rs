//! The battery-backed clock's time: whole seconds, for want of a better.

use super::NoOffset;
use super::offset::{Moment, Offset, Told};
use crate::reference::rtc::Rtc;
use facts::hardware::{RtcConvention, parse_convention};
use facts::{Fact, Unknown};

/// Where a person or an installer wrote down what the RTC keeps.
const ADJTIME: &str = "/etc/adjtime";

/// The RTC.
#[derive(Debug)]
pub struct RtcTime {
    rtc: Rtc,
}

impl RtcTime {
    /// `rtc0`, unless it keeps local time, which is not the same hour all
    /// year.
    pub fn find() -> Fact<Self> {
        let convention = std::fs::read_to_string(ADJTIME).ok();
        if let Some(Fact::Known(RtcConvention::Local)) = convention.as_deref().map(parse_convention)
        {
            let why = "the RTC keeps local time, by /etc/adjtime";
            return Fact::Unknown(Unknown::not_applicable(why));
        }
        Rtc::find().map(|rtc| Self { rtc })
    }

    /// How far it is from CLOCK_REALTIME.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn compare(&self) -> Result<Offset, NoOffset> {
        let before = Moment::now()?;
        let seconds = match self.rtc.read_s() {
            Fact::Known(seconds) => seconds,
            Fact::Unknown(why) => return Err(why.into()),
        };
        let after = Moment::now()?;
        told(seconds).between(|| "rtc".to_owned(), before, after)
    }
}

/// The time is up to a second more than the RTC shows.
fn told(seconds: u64) -> Told {
    let earliest_ns = i128::from(seconds) * 1_000_000_000;
    Told { earliest_ns, latest_ns: earliest_ns + 1_000_000_000 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_shown_is_half_a_second_known() {
        let at = Moment { monotonic_ns: 5, realtime_ns: 1_795_000_000_000_000_000 };
        let offset = told(1_795_000_002).between(|| "rtc".into(), at, at).unwrap();
        assert_eq!((offset.offset_ns, offset.bound_ns), (2_500_000_000, 500_000_000));
    }
}
