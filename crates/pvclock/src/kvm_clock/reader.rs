//! Reading the time page.

use core::sync::atomic::{AtomicU64, Ordering};

use super::page::{Flags, TimeInfo, TimePage, pack, unpack};
use crate::counter::Counter;
use crate::sequence::{self, DEFAULT_TRIES, OddWhileWriting};
use crate::shared::{Aligned, Memory, Word};
use crate::{Nanos, ReadError, Scale, Ticks};

/// How often a counter that is behind the page's time stamp is read again.
/// An unordered read may take the counter before an update and the page after
/// it; another read repairs that, and a counter that is really behind stays behind.
const BEHIND_TRIES: u32 = 8;

/// Reads one time page.
#[derive(Debug, Clone, Copy)]
pub struct TimeReader<'p, M: Memory = Aligned> {
    page: &'p TimePage<M>,
    tries: u32,
}

impl<'p, M: Memory> TimeReader<'p, M> {
    /// A reader of `page`.
    pub const fn new(page: &'p TimePage<M>) -> Self {
        Self { page, tries: DEFAULT_TRIES }
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
    pub fn info(&self) -> Result<TimeInfo, ReadError> {
        let (version, (mut info, _)) = self.read_with(|| 0)?;
        info.version = version;
        Ok(info)
    }

    /// The system time, by a counter read that the CPU may reorder: right for
    /// time stamps, not for deciding what came first.
    ///
    /// # Errors
    /// All of [`ReadError`] that the page can cause.
    #[inline(always)]
    pub fn nanos(&self, counter: &impl Counter) -> Result<Nanos, ReadError> {
        Ok(self.time_and_flags(|| counter.read())?.0)
    }

    /// The system time, by a counter read that comes after every earlier load.
    ///
    /// # Errors
    /// As [`TimeReader::nanos`].
    #[inline(always)]
    pub fn nanos_ordered(&self, counter: &impl Counter) -> Result<Nanos, ReadError> {
        counter.order();
        self.nanos(counter)
    }

    /// [`TimeReader::nanos`] by one try: `None` where the page is being written or gives no
    /// time, which `nanos` distinguishes. It calls nothing, so that a caller's usual case
    /// needs no stack.
    #[inline(always)]
    pub fn nanos_by_one_try(&self, counter: &impl Counter) -> Option<Nanos> {
        Some(self.time_by_one_try(|| counter.read())?.0)
    }

    /// The system time, never less than any reader of `last` was given
    /// before: for pages without [`Flags::TSC_STABLE`]. With the flag the
    /// page alone keeps the order, and `last` is not used.
    ///
    /// # Errors
    /// As [`TimeReader::nanos`].
    #[inline]
    pub fn nanos_monotonic(
        &self,
        counter: &impl Counter,
        last: &LastTime,
    ) -> Result<Nanos, ReadError> {
        counter.order();
        let (now, flags) = self.time_and_flags(|| counter.read())?;
        Ok(if flags.contains(Flags::TSC_STABLE) { now } else { last.at_least(now) })
    }

    /// The counter alone, to be converted by [`TimeReader::nanos_at`] when
    /// needed.
    #[inline(always)]
    pub fn ticks(&self, counter: &impl Counter) -> Ticks {
        Ticks(counter.read())
    }

    /// The system time at which the counter showed `ticks`, before or after
    /// the page's last update, by that update's scale.
    ///
    /// # Errors
    /// As [`TimeReader::nanos`]; [`ReadError::CounterBehind`] where `ticks`
    /// lies before the clock's zero.
    pub fn nanos_at(&self, ticks: Ticks) -> Result<Nanos, ReadError> {
        let info = self.info()?;
        let since = ticks.0.wrapping_sub(info.tsc_timestamp);
        if since.cast_signed() >= 0 {
            return time_after(info.system_time, since, info.scale);
        }
        let before = since.wrapping_neg();
        info.scale
            .nanos(before)
            .and_then(|nanos| info.system_time.0.checked_sub(nanos.0))
            .map(Nanos)
            .ok_or(ReadError::CounterBehind { counter: ticks.0, timestamp: info.tsc_timestamp })
    }

    /// Takes GUEST_STOPPED: whether it was set, and clears it. Only the guest
    /// whose page this is may do so, and only in memory mapped writable.
    pub fn take_guest_stopped(&self) -> bool {
        let mask = !pack(0, Flags::GUEST_STOPPED);
        let (_, was) = unpack(self.page.shift_and_flags.fetch_and(mask));
        was.contains(Flags::GUEST_STOPPED)
    }

    /// The usual case in line and in registers; everything else in
    /// [`TimeReader::time_by_retry`].
    #[inline(always)]
    fn time_and_flags(
        &self,
        mut read_counter: impl FnMut() -> u64,
    ) -> Result<(Nanos, Flags), ReadError> {
        match self.time_by_one_try(&mut read_counter) {
            Some(time) => Ok(time),
            None => self.time_by_retry(read_counter),
        }
    }

    #[inline(always)]
    fn time_by_one_try(&self, mut read_counter: impl FnMut() -> u64) -> Option<(Nanos, Flags)> {
        let page = self.page;
        let (_, (info, counter)) =
            sequence::read_once::<M, OddWhileWriting, _>(&page.version, || {
                load_fields(page, &mut read_counter)
            })?;
        let delta = counter.wrapping_sub(info.tsc_timestamp);
        if delta.cast_signed() < 0 || info.scale.mul() == 0 {
            return None;
        }
        let elapsed = info.scale.nanos_of_fast_counter(delta)?;
        Some((Nanos(info.system_time.0.checked_add(elapsed.0)?), info.flags))
    }

    #[cold]
    #[inline(never)]
    fn time_by_retry(
        self,
        mut read_counter: impl FnMut() -> u64,
    ) -> Result<(Nanos, Flags), ReadError> {
        let mut behind_tries_left = BEHIND_TRIES;
        loop {
            let (version, (info, counter)) = self.read_with(&mut read_counter)?;
            let delta = counter.wrapping_sub(info.tsc_timestamp);
            if info.scale.mul() == 0 {
                return Err(ReadError::SwitchedOff { version });
            } else if delta.cast_signed() >= 0 {
                return Ok((time_after(info.system_time, delta, info.scale)?, info.flags));
            } else if behind_tries_left == 0 {
                return Err(ReadError::CounterBehind { counter, timestamp: info.tsc_timestamp });
            }
            behind_tries_left -= 1;
        }
    }

    /// The fields, and the counter read between them and the version check.
    fn read_with(
        &self,
        mut read_counter: impl FnMut() -> u64,
    ) -> Result<(u32, (TimeInfo, u64)), ReadError> {
        let page = self.page;
        sequence::read::<M, OddWhileWriting, _>(&page.version, self.tries, || {
            load_fields(page, &mut read_counter)
        })
    }
}

/// The counter, then the fields, which the CPU loads while the counter is on its
/// way: before an ordered counter read it would wait for them. Both lie between the
/// two loads of the version. That version is the caller's to fill in.
#[inline(always)]
fn load_fields<M: Memory>(
    page: &TimePage<M>,
    read_counter: &mut impl FnMut() -> u64,
) -> (TimeInfo, u64) {
    let counter = read_counter();
    let tsc_timestamp = page.tsc_timestamp.load();
    let system_time = Nanos(page.system_time.load());
    let mul = page.tsc_to_system_mul.load();
    let (shift, flags) = unpack(page.shift_and_flags.load());
    let scale = Scale::from_parts(mul, shift);
    (TimeInfo { version: 0, tsc_timestamp, system_time, scale, flags }, counter)
}

/// `inline` lets a caller in another crate see that this cannot panic, so
/// that pvclock-c's library needs nothing of std.
#[inline]
fn time_after(base: Nanos, delta: u64, scale: Scale) -> Result<Nanos, ReadError> {
    scale
        .nanos(delta)
        .and_then(|elapsed| base.0.checked_add(elapsed.0))
        .map(Nanos)
        .ok_or(ReadError::Overflow { base, delta, scale })
}

/// The largest time that any reader was given: shared by the readers of all
/// pages of a guest without [`Flags::TSC_STABLE`]. In memory it is one `u64`
/// of nanoseconds, so that other languages can hold it too.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct LastTime(AtomicU64);

impl LastTime {
    /// Before any read.
    pub const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// `now`, or the larger time that a reader has returned already.
    ///
    /// Relaxed is enough: all changes of one atomic have one order, and a
    /// thread that learns of another's read by other means synchronises by those.
    #[inline]
    fn at_least(&self, now: Nanos) -> Nanos {
        Nanos(self.0.fetch_max(now.0, Ordering::Relaxed).max(now.0))
    }
}
