//! How a call ended.

use core::ffi::CStr;

use pvclock::{PageError, ReadError, ScaleError};

/// How a call ended. Unless it is PVCLOCK_STATUS_OK, nothing was written
/// through the call's out pointers.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PvclockStatus {
    /// Done.
    Ok = 0,
    /// A pointer is NULL.
    NullPointer = 1,
    /// The page's address does not suit its kind: see "Pages".
    Misaligned = 2,
    /// No page of this kind is there: VMClock's magic number, layout version
    /// or size is another. Do not retry.
    BadPage = 3,
    /// The page's times refer to another counter than this CPU's (TSC, CNTVCT):
    /// read that counter, and pass its value.
    OtherCounter = 4,
    /// The host has not written the page, or has withdrawn it, perhaps for a
    /// moment: use another clock for this reading.
    SwitchedOff = 5,
    /// The host was writing the page at every one of 100,000 tries, some
    /// milliseconds: use another clock.
    NeverFinished = 6,
    /// The counter is below the page's time stamp: it went backward, or the
    /// page is another CPU's.
    CounterBehind = 7,
    /// The time does not fit its 64 bits: the page's contents are absurd.
    Overflow = 8,
    /// No scale stands for this frequency, or the other way round.
    BadFrequency = 9,
}

/// The statuses in order of their numbers, with what they mean for a person.
const TEXTS: [(PvclockStatus, &CStr); 10] = [
    (PvclockStatus::Ok, c"done"),
    (PvclockStatus::NullPointer, c"a pointer is NULL"),
    (PvclockStatus::Misaligned, c"the page's address is not aligned for its kind"),
    (PvclockStatus::BadPage, c"there is no page of this kind and layout version"),
    (PvclockStatus::OtherCounter, c"the page refers to another counter than the CPU's"),
    (PvclockStatus::SwitchedOff, c"the page is switched off: use another clock"),
    (PvclockStatus::NeverFinished, c"the page was being written at every try"),
    (PvclockStatus::CounterBehind, c"the counter is behind the page's time stamp"),
    (PvclockStatus::Overflow, c"the time exceeds 64 bits"),
    (PvclockStatus::BadFrequency, c"no scale stands for this frequency"),
];

/// What a status number means.
pub(crate) fn text(number: i32) -> &'static CStr {
    usize::try_from(number)
        .ok()
        .and_then(|index| TEXTS.get(index))
        .map_or(c"not a status of pvclock", |(_, text)| text)
}

impl From<ReadError> for PvclockStatus {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::NeverFinished { .. } => Self::NeverFinished,
            ReadError::SwitchedOff { .. } => Self::SwitchedOff,
            ReadError::CounterBehind { .. } => Self::CounterBehind,
            // Contents that lead to no time, each in its own way.
            _ => Self::Overflow,
        }
    }
}

impl From<PageError> for PvclockStatus {
    fn from(error: PageError) -> Self {
        match error {
            PageError::Misaligned { .. } => Self::Misaligned,
            _ => Self::BadPage,
        }
    }
}

impl From<ScaleError> for PvclockStatus {
    fn from(_: ScaleError) -> Self {
        Self::BadFrequency
    }
}

#[cfg(test)]
mod tests {
    use super::{TEXTS, text};

    #[test]
    fn each_number_has_its_own_text() {
        for (index, (status, expected)) in TEXTS.iter().enumerate() {
            assert_eq!(*status as usize, index);
            assert_eq!(text(index as i32), *expected);
        }
        for unknown in [-1, 10, i32::MIN, i32::MAX] {
            assert_eq!(text(unknown), c"not a status of pvclock");
        }
    }
}
