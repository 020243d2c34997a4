//! Hyper-V's reference TSC page (TLFS, "Partition Reference Time
//! Enlightenment").
//!
//! ```text
//!  0         4      8                16              24
//! | sequence | res  | scale          | offset (i64)  |
//! ```
//!
//! ```text
//! time = ((TSC · scale) >> 64) + offset        in units of 100 ns
//! ```
//!
//! counted from the partition's creation. Sequence 0 means that the page must
//! not be used now, and the reader reads the reference counter MSR instead:
//! [`ReadError::SwitchedOff`]. The host sets it while it rewrites the page,
//! and for as long as the TSC cannot be a clock; 0xFFFF_FFFF, which old hosts
//! used for the same, is taken for the same.

use core::mem::{offset_of, size_of};

use crate::counter::Counter;
use crate::sequence::{self, DEFAULT_TRIES, ZeroWhileWriting};
use crate::shared::{Aligned, Memory, Word};
use crate::{Hertz, ReadError, ScaleError};

/// Units of 100 ns in a second: what the page counts in.
pub const UNITS_PER_SECOND: u64 = 10_000_000;

/// The reference TSC page: the first 24 bytes of a 4096-byte overlay.
#[derive(Debug)]
#[repr(C)]
pub struct ReferencePage<M: Memory = Aligned> {
    sequence: M::U32,
    reserved: M::U32,
    scale: M::U64,
    offset: M::U64,
}

const _: () = {
    assert!(size_of::<ReferencePage>() == 24);
    assert!(offset_of!(ReferencePage, sequence) == 0);
    assert!(offset_of!(ReferencePage, scale) == 8);
    assert!(offset_of!(ReferencePage, offset) == 16);
};

impl<M: Memory> ReferencePage<M> {
    /// A page of our own, switched off.
    pub fn new() -> Self {
        Self::from_info(&ReferenceInfo {
            sequence: 0,
            scale: ReferenceScale::from_raw(0),
            offset_100ns: 0,
        })
    }

    /// A page that holds `info`.
    pub fn from_info(info: &ReferenceInfo) -> Self {
        Self {
            sequence: M::U32::new(info.sequence),
            reserved: M::U32::new(0),
            scale: M::U64::new(info.scale.0),
            offset: M::U64::new(info.offset_100ns.cast_unsigned()),
        }
    }
}

impl<M: Memory> Default for ReferencePage<M> {
    fn default() -> Self {
        Self::new()
    }
}

/// Units of 100 ns a cycle, times 2^64.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReferenceScale(u64);

impl ReferenceScale {
    /// The slowest TSC this page can serve: above its own 10 MHz.
    pub const MIN_FREQUENCY: Hertz = Hertz(UNITS_PER_SECOND + 1);

    /// The scale of a TSC that runs at `frequency`, cut to 64 bits: the time
    /// it gives is behind by less than `cycles · 2^−64 + 1` units.
    ///
    /// # Errors
    /// Below [`ReferenceScale::MIN_FREQUENCY`].
    ///
    /// ```
    /// use pvclock::{Hertz, hyperv::ReferenceScale};
    /// let scale = ReferenceScale::from_hertz(Hertz(2_600_000_000))?;
    /// assert_eq!(scale.raw(), 70_949_015_668_113_660);
    /// # Ok::<(), pvclock::ScaleError>(())
    /// ```
    pub const fn from_hertz(frequency: Hertz) -> Result<Self, ScaleError> {
        if frequency.0 < Self::MIN_FREQUENCY.0 {
            let (min, max) = (Self::MIN_FREQUENCY, Hertz(u64::MAX));
            return Err(ScaleError { frequency, min, max });
        }
        Ok(Self((((UNITS_PER_SECOND as u128) << 64) / frequency.0 as u128) as u64))
    }

    /// The scale as a page holds it.
    pub const fn from_raw(raw: u64) -> Self {
        Self(raw)
    }

    /// As a page holds it.
    pub const fn raw(self) -> u64 {
        self.0
    }

    /// The frequency this stands for, to the nearest hertz; `None` for 0.
    pub const fn to_hertz(self) -> Option<Hertz> {
        if self.0 == 0 {
            return None;
        }
        let hz = (((UNITS_PER_SECOND as u128) << 64) + self.0 as u128 / 2) / self.0 as u128;
        if hz > u64::MAX as u128 { None } else { Some(Hertz(hz as u64)) }
    }

    /// `counter` in units of 100 ns.
    #[inline(always)]
    const fn units(self, counter: u64) -> u64 {
        ((counter as u128 * self.0 as u128) >> 64) as u64
    }
}

/// The page's contents, taken as one whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReferenceInfo {
    /// Neither 0 nor 0xFFFF_FFFF while the page is good.
    pub sequence: u32,
    /// The TSC's rate.
    pub scale: ReferenceScale,
    /// Time at TSC 0, in units of 100 ns.
    pub offset_100ns: i64,
}

impl ReferenceInfo {
    /// The contents from the page's bytes, copied between two updates.
    pub fn from_bytes(bytes: &[u8; 24]) -> Self {
        let [sequence, scale, offset] = crate::shared::words(bytes);
        Self {
            sequence: sequence as u32,
            scale: ReferenceScale(scale),
            offset_100ns: offset.cast_signed(),
        }
    }
}

/// Reads the reference TSC page.
#[derive(Debug, Clone, Copy)]
pub struct ReferenceReader<'p, M: Memory = Aligned> {
    page: &'p ReferencePage<M>,
    tries: u32,
}

impl<'p, M: Memory> ReferenceReader<'p, M> {
    /// A reader of `page`.
    pub const fn new(page: &'p ReferencePage<M>) -> Self {
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
    /// [`ReadError::SwitchedOff`], [`ReadError::NeverFinished`].
    pub fn info(&self) -> Result<ReferenceInfo, ReadError> {
        Ok(self.read_with(|| 0)?.0)
    }

    /// Time since the partition's creation, in units of 100 ns, by a counter
    /// read that the CPU may reorder.
    ///
    /// # Errors
    /// [`ReadError::SwitchedOff`]: read the reference counter MSR.
    /// [`ReadError::NeverFinished`], [`ReadError::ReferenceOverflow`].
    #[inline(always)]
    pub fn units_100ns(&self, counter: &impl Counter) -> Result<u64, ReadError> {
        self.units_by(|| counter.read())
    }

    /// [`ReferenceReader::units_100ns`] by a counter read that comes after
    /// every earlier load.
    ///
    /// # Errors
    /// As there.
    #[inline(always)]
    pub fn units_100ns_ordered(&self, counter: &impl Counter) -> Result<u64, ReadError> {
        self.units_by(|| counter.read_ordered())
    }

    #[inline(always)]
    fn units_by(&self, mut read_counter: impl FnMut() -> u64) -> Result<u64, ReadError> {
        let page = self.page;
        if let Some((_, (info, counter))) =
            sequence::read_once::<M, ZeroWhileWriting, _>(&page.sequence, || {
                load_fields(page, &mut read_counter)
            })
            && let units = info.scale.units(counter)
            && let Some(time) = units.checked_add_signed(info.offset_100ns)
        {
            return Ok(time);
        }
        self.units_by_retry(read_counter)
    }

    #[cold]
    #[inline(never)]
    fn units_by_retry(&self, read_counter: impl FnMut() -> u64) -> Result<u64, ReadError> {
        let (info, counter) = self.read_with(read_counter)?;
        // A wrapped sum would read as a jump of 58 000 years: an error instead.
        info.scale.units(counter).checked_add_signed(info.offset_100ns).ok_or(
            ReadError::ReferenceOverflow {
                counter,
                scale: info.scale.0,
                offset: info.offset_100ns,
            },
        )
    }

    fn read_with(
        &self,
        mut read_counter: impl FnMut() -> u64,
    ) -> Result<(ReferenceInfo, u64), ReadError> {
        let page = self.page;
        let (sequence, (mut info, counter)) =
            sequence::read::<M, ZeroWhileWriting, _>(&page.sequence, self.tries, || {
                load_fields(page, &mut read_counter)
            })?;
        info.sequence = sequence;
        Ok((info, counter))
    }
}

/// The counter, then the fields, as kvm-clock's reader does. The sequence is the
/// caller's to fill in.
#[inline(always)]
fn load_fields<M: Memory>(
    page: &ReferencePage<M>,
    read_counter: &mut impl FnMut() -> u64,
) -> (ReferenceInfo, u64) {
    let counter = read_counter();
    let scale = ReferenceScale(page.scale.load());
    let offset_100ns = page.offset.load().cast_signed();
    (ReferenceInfo { sequence: 0, scale, offset_100ns }, counter)
}

/// Writes the reference TSC page.
#[derive(Debug)]
pub struct ReferenceWriter<'p, M: Memory = Aligned> {
    page: &'p ReferencePage<M>,
    /// The page shows 0 while it is off; counting continues from here, so that
    /// no reader takes two different contents for one.
    sequence: u32,
}

impl<'p, M: Memory> ReferenceWriter<'p, M> {
    /// A writer of `page`, whatever that holds.
    pub fn new(page: &'p ReferencePage<M>) -> Self {
        Self::resume(page, page.sequence.load())
    }

    /// A writer that counts on from another's [`ReferenceWriter::sequence`]:
    /// the page does not hold it while it is switched off.
    pub const fn resume(page: &'p ReferencePage<M>, sequence: u32) -> Self {
        Self { page, sequence }
    }

    /// The sequence of the last write: part of what a saved VM consists of.
    pub const fn sequence(&self) -> u32 {
        self.sequence
    }

    /// Writes an update, and switches the page on.
    pub fn write(&mut self, scale: ReferenceScale, offset_100ns: i64) {
        let page = self.page;
        self.sequence =
            sequence::write::<M, ZeroWhileWriting>(&page.sequence, self.sequence, || {
                page.scale.store(scale.0);
                page.offset.store(offset_100ns.cast_unsigned());
            });
    }

    /// Sends readers to the MSR until the next write.
    pub fn switch_off(&mut self) {
        self.page.sequence.store(0);
    }
}
