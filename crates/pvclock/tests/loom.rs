//! Reader against writer, in every order that the memory model allows.
//!
//! The code under test is the code that runs in production: only the words of
//! memory are loom's. Each model has a writer that updates a page twice while
//! a reader reads; whatever the reader is given must be one of the states
//! that the page was left in, never a mixture.
#![cfg(not(miri))]

mod modelled;

use std::sync::Arc;

use pvclock::clockbound::{Layout, SegmentBound, SegmentPage, SegmentReader, SegmentWriter};
use pvclock::hyperv::{
    ReferenceInfo, ReferencePage, ReferenceReader, ReferenceScale, ReferenceWriter,
};
use pvclock::kvm_clock::{
    TimeInfo, TimePage, TimeReader, TimeUpdate, TimeWriter, WallClock, WallClockPage,
    WallClockReader, WallClockWriter,
};
use pvclock::steal_time::{StealPage, StealReader, StealWriter};
use pvclock::vmclock::{VmClockInfo, VmClockPage, VmClockReader, VmClockWriter};
use pvclock::{Nanos, ReadError, Scale};

use modelled::Modelled;

/// Tries of a modelled reader: one that fails and one more. (One alone where
/// a page has so many words that two would take hours.)
const TRIES: u32 = 2;

/// Runs `write` and `read` at once on a page, and checks what was read.
///
/// `preemptions` bounds how often a thread is interrupted between two steps;
/// which of a word's values a load sees is tried out in full as well.
fn model<P: Send + Sync + 'static, T: PartialEq + std::fmt::Debug + Send + Sync + 'static>(
    preemptions: usize,
    new_page: impl Fn() -> P + Sync + Send + 'static,
    write: impl Fn(&P) + Copy + Sync + Send + 'static,
    read: impl Fn(&P) -> Result<T, ReadError> + Sync + Send + 'static,
    states: Vec<T>,
    may_be_off: bool,
) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(move || {
        let page = Arc::new(new_page());
        let writer = {
            let page = Arc::clone(&page);
            loom::thread::spawn(move || write(&page))
        };
        match read(&page) {
            Ok(seen) => assert!(states.contains(&seen), "torn: {seen:?} is none of {states:?}"),
            Err(ReadError::NeverFinished { .. }) => {}
            Err(ReadError::SwitchedOff { .. }) if may_be_off => {}
            Err(other) => panic!("{other}"),
        }
        writer.join().unwrap();
    });
}

fn update(value: u32) -> TimeUpdate {
    TimeUpdate {
        tsc_timestamp: u64::from(value),
        system_time: Nanos(u64::from(value)),
        scale: Scale::from_parts(value, -1),
        stable: true,
    }
}

fn time_info(version: u32, value: u32) -> TimeInfo {
    let TimeUpdate { tsc_timestamp, system_time, scale, .. } = update(value);
    let flags = pvclock::kvm_clock::Flags::TSC_STABLE;
    TimeInfo { version, tsc_timestamp, system_time, scale, flags }
}

#[test]
fn time_page() {
    model(
        3,
        || TimePage::<Modelled>::from_info(&time_info(2, 1)),
        |page| {
            let mut writer = TimeWriter::new(page);
            writer.write(&update(2));
            writer.write(&update(3));
        },
        |page| TimeReader::new(page).with_tries(TRIES).info(),
        vec![time_info(2, 1), time_info(4, 2), time_info(6, 3)],
        false,
    );
}

/// The page's fields are junk, and its version odd: no state but the written
/// one may ever be read.
#[test]
fn time_page_found_odd() {
    model(
        3,
        || TimePage::<Modelled>::from_info(&time_info(7, 1)),
        |page| TimeWriter::new(page).write(&update(2)),
        |page| TimeReader::new(page).with_tries(TRIES).info(),
        vec![time_info(10, 2)],
        false,
    );
}

/// As the hot path reads: counter and page together. At one nanosecond a
/// cycle all states of the page agree on the time of cycle 100.
#[test]
fn time_page_nanos() {
    let scale = Scale::from_parts(1 << 31, 1);
    let at = move |value| TimeUpdate { scale, system_time: Nanos(value), ..update(value as u32) };
    model(
        3,
        move || TimePage::<Modelled>::from_info(&TimeInfo { scale, ..time_info(2, 1) }),
        move |page| TimeWriter::new(page).write(&at(2)),
        |page| TimeReader::new(page).with_tries(1).nanos(&|| 100),
        vec![Nanos(100)],
        false,
    );
}

#[test]
fn wall_clock() {
    let at = |value| WallClock { seconds: value, nanoseconds: value };
    model(
        3,
        WallClockPage::<Modelled>::new,
        move |page| {
            let mut writer = WallClockWriter::new(page);
            writer.write(at(1));
            writer.write(at(2));
        },
        |page| WallClockReader::new(page).with_tries(TRIES).read(),
        vec![at(1), at(2)],
        true,
    );
}

fn reference(sequence: u32, value: u64) -> ReferenceInfo {
    let scale = ReferenceScale::from_raw(value);
    ReferenceInfo { sequence, scale, offset_100ns: value.cast_signed() }
}

#[test]
fn hyperv_page() {
    model(
        3,
        || ReferencePage::<Modelled>::from_info(&reference(u32::MAX - 1, 1)),
        |page| {
            let mut writer = ReferenceWriter::new(page);
            writer.write(ReferenceScale::from_raw(2), 2);
            writer.write(ReferenceScale::from_raw(3), 3);
        },
        |page| ReferenceReader::new(page).with_tries(TRIES).info(),
        vec![reference(u32::MAX - 1, 1), reference(1, 2), reference(2, 3)],
        true,
    );
}

#[test]
fn steal_page() {
    model(
        3,
        StealPage::<Modelled>::new,
        |page| {
            let mut writer = StealWriter::new(page);
            writer.write(Nanos(1));
            writer.set_preempted();
            writer.write(Nanos(2));
        },
        // `preempted` lies outside the protocol, so only the rest is a whole.
        |page| {
            let info = StealReader::new(page).with_tries(TRIES).read()?;
            Ok((info.version, info.steal))
        },
        vec![(0, Nanos(0)), (2, Nanos(1)), (4, Nanos(2))],
        false,
    );
}

fn vmclock(seq_count: u32, value: u64) -> VmClockInfo {
    let mut bytes = [0; VmClockInfo::SIZE];
    bytes[0..12].copy_from_slice(b"VCLK\0\x10\0\0\x01\0\x01\0");
    let info = VmClockInfo::from_bytes(&bytes).unwrap();
    VmClockInfo { seq_count, counter_value: value, time_sec: value, ..info }
}

#[test]
fn vmclock_page() {
    model(
        1,
        || VmClockPage::<Modelled>::from_info(&vmclock(2, 1)),
        |page| VmClockWriter::new(page).write(&vmclock(0, 2)),
        |page| VmClockReader::new(page).unwrap().with_tries(1).info(),
        vec![vmclock(2, 1), vmclock(4, 2)],
        false,
    );
}

fn clock_bound(value: u64) -> SegmentBound {
    SegmentBound { as_of_ns: value, bound_ns: value, ..SegmentBound::UNKNOWN }
}

#[test]
fn clockbound_segment() {
    model(
        3,
        || {
            let page = SegmentPage::<Modelled>::new(Layout::First);
            SegmentWriter::new(&page, Layout::First).write(&clock_bound(1));
            page
        },
        |page| _ = SegmentWriter::new(page, Layout::First).write(&clock_bound(2)),
        |page| SegmentReader::new(page).unwrap().with_tries(TRIES).read(),
        vec![clock_bound(1), clock_bound(2)],
        false,
    );
}

/// Until its first update a reader gets nothing.
#[test]
fn clockbound_segment_before_its_first_update() {
    model(
        3,
        || SegmentPage::<Modelled>::new(Layout::First),
        |page| _ = SegmentWriter::new(page, Layout::First).write(&clock_bound(2)),
        |page| SegmentReader::new(page).unwrap().with_tries(TRIES).read(),
        vec![clock_bound(2)],
        true,
    );
}
