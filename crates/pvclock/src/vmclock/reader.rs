//! Reading the VMClock page.

use super::page::{CounterId, VmClockFlags, VmClockInfo, VmClockPage, check_identity};
use crate::counter::Counter;
use crate::sequence::{self, DEFAULT_TRIES, OddWhileWriting};
use crate::shared::{Aligned, Memory, Word};
use crate::{Nanos, PageError, ReadError};

/// A time from the page, with what is known of its error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VmClockTime {
    /// Whole seconds of the page's time scale.
    pub seconds: u64,
    /// Their fraction, in units of 2^−64 s.
    pub fraction: u64,
    /// The truth is within ± this, where the host states a bound.
    pub max_error: Option<Nanos>,
    /// The page as it was read.
    pub info: VmClockInfo,
}

impl VmClockTime {
    /// The fraction in nanoseconds, truncated.
    pub const fn subsecond_nanos(&self) -> u32 {
        ((self.fraction as u128 * 1_000_000_000) >> 64) as u32
    }
}

/// The time by the page alone, for a program that reads it often.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct VmClockNow {
    /// Since the beginning of the page's time scale.
    pub time: Nanos,
    /// The update that it rests on. While it is the same, so is [`VmClockReader::info`]: which
    /// counter, which scale, the state of the host's clock, its error.
    pub seq_count: u32,
}

impl VmClockInfo {
    /// The time at which the counter reads `counter`, by these contents.
    ///
    /// # Errors
    /// [`ReadError::CounterBehind`], [`ReadError::VmClockOverflow`];
    /// [`ReadError::SwitchedOff`] where the page gives no period, or no
    /// counter.
    pub fn time_at(self, counter: u64) -> Result<VmClockTime, ReadError> {
        let info = self;
        if info.period == 0 || info.counter_id == CounterId::INVALID {
            return Err(ReadError::SwitchedOff { version: info.seq_count });
        }
        let delta = counter.wrapping_sub(info.counter_value);
        if delta.cast_signed() < 0 {
            return Err(ReadError::CounterBehind { counter, timestamp: info.counter_value });
        }
        let base = u128::from(info.time_sec) << 64 | u128::from(info.time_frac);
        let elapsed = seconds_times_2_64(delta, info.period, info.period_shift);
        let now = base.checked_add(elapsed).ok_or(ReadError::VmClockOverflow {
            seconds: info.time_sec,
            delta,
            period: info.period,
            period_shift: info.period_shift,
        })?;
        let max_error = max_error(&info, delta);
        Ok(VmClockTime { seconds: (now >> 64) as u64, fraction: now as u64, max_error, info })
    }

    /// Nanoseconds a count; 0 where it gives no time.
    pub fn ns_per_count(&self) -> f64 {
        let unit = (1u128 << (self.period_shift & 127)) as f64 * 18_446_744_073_709_551_616.0;
        self.period as f64 / unit * 1e9
    }
}

/// Reads a VMClock page.
#[derive(Debug, Clone, Copy)]
pub struct VmClockReader<'p, M: Memory = Aligned> {
    page: &'p VmClockPage<M>,
    tries: u32,
}

impl<'p, M: Memory> VmClockReader<'p, M> {
    /// A reader of `page`.
    ///
    /// # Errors
    /// The page is none, or of a layout this crate does not know.
    pub fn new(page: &'p VmClockPage<M>) -> Result<Self, PageError> {
        check_identity(page.magic.load(), page.size.load(), page.identity.load())?;
        Ok(Self { page, tries: DEFAULT_TRIES })
    }

    /// Gives up after `tries` tries instead of [`DEFAULT_TRIES`].
    #[must_use]
    pub const fn with_tries(self, tries: u32) -> Self {
        Self { tries, ..self }
    }

    /// The page's contents as one whole.
    ///
    /// # Errors
    /// [`ReadError::NeverFinished`].
    pub fn info(&self) -> Result<VmClockInfo, ReadError> {
        Ok(self.read_with(|| 0)?.0)
    }

    /// The time now, by a counter read that comes after every earlier load.
    ///
    /// The caller checks [`VmClockInfo::counter_id`] and `time_type` in the
    /// result: the page states whose cycles and which scale these are.
    ///
    /// # Errors
    /// [`ReadError::NeverFinished`], [`ReadError::CounterBehind`],
    /// [`ReadError::VmClockOverflow`]; [`ReadError::SwitchedOff`] where the
    /// page gives no period, or no counter.
    pub fn time(&self, counter: &impl Counter) -> Result<VmClockTime, ReadError> {
        let (info, counter) = self.read_with(|| counter.read_ordered())?;
        info.time_at(counter)
    }

    /// The time now, by a counter read that the CPU may reorder, from the fields that it needs:
    /// the price of the counter and a third.
    ///
    /// The caller checks the page's [`info`](Self::info) where `seq_count` is another than before.
    ///
    /// # Errors
    /// As [`time`](Self::time).
    #[inline(always)]
    pub fn now(&self, counter: &impl Counter) -> Result<VmClockNow, ReadError> {
        let page = self.page;
        let once = sequence::read_once::<M, OddWhileWriting, _>(&page.seq_count, || {
            let counter = counter.read();
            let base = u128::from(page.time_sec.load()) << 64 | u128::from(page.time_frac.load());
            let [_, _, counter_id, _] = page.identity.load().to_le_bytes();
            let [_, _, _, shift] = page.leap_and_shift.load().to_le_bytes();
            let delta = counter.wrapping_sub(page.counter_value.load());
            (delta, page.period.load(), shift, CounterId(counter_id), base)
        });
        if let Some((seq_count, (delta, period, shift, counter_id, base))) = once
            && delta.cast_signed() >= 0
            && period != 0
            && counter_id != CounterId::INVALID
            && let elapsed = (u128::from(delta) * u128::from(period)) >> (shift & 63)
            && let Some(now) = base.checked_add(elapsed)
            && let Some(time) = nanos(now)
            // After the shift, which is one instruction only where its mask is not known to be
            // idle. A larger shift is of a counter above 2^64 Hz.
            && shift < 64
        {
            return Ok(VmClockNow { time, seq_count });
        }
        self.now_by_retry(|| counter.read())
    }

    /// As [`now`](Self::now), by a counter read that comes after every earlier load.
    ///
    /// # Errors
    /// As [`time`](Self::time).
    #[inline(always)]
    pub fn now_ordered(&self, counter: &impl Counter) -> Result<VmClockNow, ReadError> {
        counter.order();
        self.now(counter)
    }

    #[cold]
    #[inline(never)]
    fn now_by_retry(self, read_counter: impl FnMut() -> u64) -> Result<VmClockNow, ReadError> {
        let (info, counter) = self.read_with(read_counter)?;
        let now = info.time_at(counter)?;
        let time = nanos(u128::from(now.seconds) << 64 | u128::from(now.fraction));
        let time = time.ok_or(ReadError::VmClockOverflow {
            seconds: info.time_sec,
            delta: counter.wrapping_sub(info.counter_value),
            period: info.period,
            period_shift: info.period_shift,
        })?;
        Ok(VmClockNow { time, seq_count: info.seq_count })
    }

    fn read_with(
        &self,
        mut read_counter: impl FnMut() -> u64,
    ) -> Result<(VmClockInfo, u64), ReadError> {
        let page = self.page;
        let (seq_count, (mut info, counter)) =
            sequence::read::<M, OddWhileWriting, _>(&page.seq_count, self.tries, || {
                let info = VmClockInfo {
                    disruption_marker: page.disruption_marker.load(),
                    flags: VmClockFlags(page.flags.load()),
                    counter_value: page.counter_value.load(),
                    period: page.period.load(),
                    period_est_error: page.period_est_error.load(),
                    period_max_error: page.period_max_error.load(),
                    time_sec: page.time_sec.load(),
                    time_frac: page.time_frac.load(),
                    time_est_error: Nanos(page.time_est_error_ns.load()),
                    time_max_error: Nanos(page.time_max_error_ns.load()),
                    vm_generation: page.vm_generation.load(),
                    ..VmClockInfo::from_words(
                        page.size.load(),
                        page.identity.load(),
                        page.status.load(),
                        page.leap_and_shift.load(),
                    )
                };
                (info, read_counter())
            })?;
        info.seq_count = seq_count;
        Ok((info, counter))
    }
}

/// Units of 2^-64 s in ns, truncated; `None` beyond 584 years.
#[inline(always)]
const fn nanos(now: u128) -> Option<Nanos> {
    let seconds = (now >> 64) as u64;
    let below_second = ((now as u64 as u128 * 1_000_000_000) >> 64) as u64;
    if seconds < u64::MAX / 1_000_000_000 {
        Some(Nanos(seconds * 1_000_000_000 + below_second))
    } else {
        None
    }
}

/// `cycles` of `period` · 2^−(64+shift) s, in units of 2^−64 s.
const fn seconds_times_2_64(cycles: u64, period: u64, shift: u8) -> u128 {
    let product = cycles as u128 * period as u128;
    if shift < 128 { product >> shift } else { 0 }
}

/// The error at the update, grown by the period's error since, rounded up.
fn max_error(info: &VmClockInfo, delta: u64) -> Option<Nanos> {
    let valid = VmClockFlags::TIME_MAX_ERROR_VALID.union(VmClockFlags::PERIOD_MAX_ERROR_VALID);
    if !info.flags.contains(valid) {
        return None;
    }
    let grown = seconds_times_2_64(delta, info.period_max_error, info.period_shift);
    let (seconds, fraction) = ((grown >> 64) as u64, grown as u64);
    let below_second = (u128::from(fraction) * 1_000_000_000).div_ceil(1 << 64) as u64;
    let nanos = seconds
        .saturating_mul(1_000_000_000)
        .saturating_add(below_second)
        .saturating_add(info.time_max_error.0);
    Some(Nanos(nanos))
}
