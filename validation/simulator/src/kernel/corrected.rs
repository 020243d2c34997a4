//! A guest's clock as the keeper corrects it: by the calls that `linux::system_clock` makes.

use crate::kernel_clock::timex::{mode, status};
use crate::kernel_clock::{LeapState, Refused, Timex};
use keeper::ClockError;
use pvclock::units::{LeapSecond, calendar};

use super::SimulatedKernel;

const DAY_NS: i64 = 86_400_000_000_000;

impl SimulatedKernel {
    fn leap_due(&self) -> Option<LeapSecond> {
        let ntp = self.time.ntp();
        let is_over = matches!(ntp.leap_state(), LeapState::Passing | LeapState::Passed);
        match ntp.status() & (status::INS | status::DEL) {
            0 => None,
            _ if is_over => None,
            bits if bits & status::INS != 0 => Some(LeapSecond::Inserted),
            _ => Some(LeapSecond::Deleted),
        }
    }
}

impl SimulatedKernel {
    pub(crate) fn step(&mut self, by_ns: i64) -> Result<(), Refused> {
        let modes = mode::SETOFFSET | mode::NANO;
        let (seconds, fraction) =
            (by_ns.div_euclid(1_000_000_000), by_ns.rem_euclid(1_000_000_000));
        let day = |kernel: &Self| kernel.shown_ns()[0].div_euclid(DAY_NS);
        let may_end_with_one = |day: &i64| calendar::date((*day).into()).is_leap_day();
        let (due, from) = (self.leap_due(), Some(day(self)).filter(may_end_with_one));
        self.adjust(Timex { modes, seconds, fraction, ..Timex::default() })?;
        self.was_set = true;
        if due.is_some() { self.set_leap(due.filter(|_| from == Some(day(self)))) } else { Ok(()) }
    }

    pub(crate) fn slew(&mut self, by_ns: i64) -> Result<(), Refused> {
        let offset = by_ns / 1000;
        self.adjust(Timex { modes: mode::OFFSET_SINGLESHOT, offset, ..Timex::default() })?;
        Ok(())
    }

    pub(crate) fn set_error(&mut self, error: ClockError) -> Result<(), Refused> {
        let us = |ns: u64| i64::try_from(ns.div_ceil(1000)).unwrap_or(i64::MAX);
        let (max_error, estimated_error) = (us(error.max_ns), us(error.estimated_ns));
        let modes = mode::MAXERROR | mode::ESTERROR | mode::STATUS;
        let kept = self.time.ntp().status() & !(status::UNSYNC | status::READ_ONLY);
        let timex = Timex { modes, max_error, estimated_error, status: kept, ..Timex::default() };
        self.adjust(timex).map(|_| ())
    }

    pub(crate) fn set_figures(
        &mut self,
        max_ns: Option<u64>,
        estimated_ns: u64,
    ) -> Result<(), Refused> {
        let us = |ns: u64| i64::try_from(ns / 1000).unwrap_or(i64::MAX);
        let modes = mode::ESTERROR | if max_ns.is_some() { mode::MAXERROR } else { 0 };
        let (max_error, estimated_error) = (us(max_ns.unwrap_or(0)), us(estimated_ns));
        self.adjust(Timex { modes, max_error, estimated_error, ..Timex::default() })?;
        Ok(())
    }

    pub(crate) fn set_leap(&mut self, leap: Option<LeapSecond>) -> Result<(), Refused> {
        let bits = match leap {
            Some(LeapSecond::Inserted) => status::INS,
            Some(LeapSecond::Deleted) => status::DEL,
            None => 0,
        };
        let kept = self.time.ntp().status() & !(status::INS | status::DEL);
        // A PLL that is left forgets a second that is due no more.
        let unit = if kept & status::NANO == 0 { 0 } else { mode::NANO };
        for status in [kept | status::PLL, kept & !status::PLL, kept | bits] {
            let modes = mode::STATUS | unit;
            self.adjust(Timex { modes, status, ..Timex::default() })?;
        }
        Ok(())
    }

    pub(crate) fn set_frequency(&mut self, ppb: f64) -> Result<(), Refused> {
        let frequency = (ppb * 65.536).round() as i64;
        self.adjust(Timex { modes: mode::FREQUENCY, frequency, ..Timex::default() })?;
        Ok(())
    }
}
