//! Guest memory without a guest: clock pages at fixed addresses, for tests,
//! fuzzers and guests that run in the host's own process.

use alloc::vec::Vec;
use core::any::Any;

use pvclock::kvm_clock::TimeInfo;
use pvclock::shared::Page;

use crate::pages::{ReferencePage, StealPage, TimePage, WallClockPage};
use crate::{ClockAddress, ClockMemory, Misplaced};

const FRAME_BYTES: u64 = 4096;
const REFERENCE: u64 = 0;
const TIME: u64 = 0x40;
const TIME_SPLIT: u64 = 0x84;
const WALL_CLOCK: u64 = 0xc0;
const STEAL: u64 = 0x100;

/// Frames of 4096 bytes from address 0 on, each with one clock page of each
/// type and no memory between those.
///
/// ```
/// use pvclock_host::pages::TimePage;
/// use pvclock_host::{ClockMemory, PlainMemory};
/// use pvclock::kvm_clock::TimeReader;
///
/// let memory = PlainMemory::new(2);
/// let page: &TimePage = memory.page(PlainMemory::time(1))?;
/// assert_eq!(TimeReader::new(page).info().unwrap().version, 0);
/// assert!(memory.page::<TimePage>(PlainMemory::time(2)).is_err());
/// # Ok::<(), pvclock_host::Misplaced>(())
/// ```
#[derive(Debug)]
pub struct PlainMemory {
    frames: Vec<PageFrame>,
}

#[derive(Debug)]
struct PageFrame {
    reference: ReferencePage,
    time: TimePage,
    time_split: TimePage,
    wall_clock: WallClockPage,
    steal: StealPage,
}

impl PageFrame {
    fn new() -> Self {
        Self {
            reference: ReferencePage::default(),
            time: TimePage::from_info(&TimeInfo::default()),
            time_split: TimePage::from_info(&TimeInfo::default()),
            wall_clock: WallClockPage::default(),
            steal: StealPage::default(),
        }
    }
}

const fn address(frame: u32, offset: u64) -> ClockAddress {
    ClockAddress(frame as u64 * FRAME_BYTES + offset)
}

impl PlainMemory {
    /// Frames of zeros.
    pub fn new(frames: u32) -> Self {
        Self { frames: (0..frames).map(|_| PageFrame::new()).collect() }
    }

    /// The address of a frame's Hyper-V page.
    pub const fn reference(frame: u32) -> ClockAddress {
        address(frame, REFERENCE)
    }

    /// The address of a frame's kvm-clock page.
    pub const fn time(frame: u32) -> ClockAddress {
        address(frame, TIME)
    }

    /// The address of a frame's other kvm-clock page, only 4-byte aligned.
    pub const fn time_split(frame: u32) -> ClockAddress {
        address(frame, TIME_SPLIT)
    }

    /// The address of a frame's wall clock.
    pub const fn wall_clock(frame: u32) -> ClockAddress {
        address(frame, WALL_CLOCK)
    }

    /// The address of a frame's steal time page.
    pub const fn steal(frame: u32) -> ClockAddress {
        address(frame, STEAL)
    }
}

impl ClockMemory for PlainMemory {
    fn page<P: Page + 'static>(&self, address: ClockAddress) -> Result<&P, Misplaced> {
        let address = address.0;
        let (alignment, length) = (align_of::<P>(), size_of::<P>());
        if !address.is_multiple_of(alignment as u64) {
            return Err(Misplaced::Unaligned { address, alignment });
        }
        let frame = usize::try_from(address / FRAME_BYTES).ok().and_then(|n| self.frames.get(n));
        let page = frame.and_then(|frame| {
            let page: &dyn Any = match address % FRAME_BYTES {
                REFERENCE => &frame.reference,
                TIME => &frame.time,
                TIME_SPLIT => &frame.time_split,
                WALL_CLOCK => &frame.wall_clock,
                STEAL => &frame.steal,
                _ => return None,
            };
            page.downcast_ref::<P>()
        });
        page.ok_or(Misplaced::Outside { address, length })
    }
}
