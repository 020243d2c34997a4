//! A hundred million reads during writes by a writer at full speed, on real threads.
//! (A few hundred under Miri, which looks for data races instead.)

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use pvclock::clockbound::{Layout, SegmentBound, SegmentPage, SegmentReader, SegmentWriter};
use pvclock::hyperv::{ReferencePage, ReferenceReader, ReferenceScale, ReferenceWriter};
use pvclock::kvm_clock::{TimePage, TimeReader, TimeUpdate, TimeWriter};
use pvclock::shared::{Aligned, Memory, Split};
use pvclock::{Nanos, ReadError, Scale};

/// The counter stands at this value; every page written here makes it the
/// same number of nanoseconds, so that any mixture of two pages shows.
const COUNTER: u64 = 1 << 50;

const fn reads(reads: u64) -> u64 {
    if cfg!(miri) { 100 } else { reads }
}

/// Ends the writer when the reader ends, by a failed assertion too: else a
/// torn value would hang the test instead of failing it.
struct Done<'a>(&'a AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Reads until `reads` succeeded. A reader that starves reports it, and that is
/// no tear: it is counted and tried again.
fn read_beside_a_writer(
    reads: u64,
    write: impl FnMut(u64) + Send,
    read: impl Fn() -> Result<u64, ReadError>,
) -> u64 {
    let done = AtomicBool::new(false);
    let mut write = write;
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut update = 0;
            while !done.load(Ordering::Relaxed) {
                update += 1;
                write(update);
            }
        });
        let _ends_the_writer = Done(&done);
        let mut starved = 0;
        let mut succeeded = 0;
        while succeeded < reads {
            match read() {
                Ok(time) => {
                    assert_eq!(time, COUNTER, "torn after {succeeded} reads");
                    succeeded += 1;
                }
                Err(ReadError::NeverFinished { .. } | ReadError::SwitchedOff { .. }) => {
                    starved += 1;
                }
                Err(other) => panic!("{other} after {succeeded} reads"),
            }
        }
        starved
    })
}

/// Pages of one clock at one nanosecond a cycle, all fields different each
/// time: the same rate is written as 2^31·2^1 and as 2^30·2^2.
fn time_update(update: u64) -> TimeUpdate {
    let stamp = update.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 16;
    let odd = update % 2 == 1;
    TimeUpdate {
        tsc_timestamp: stamp,
        system_time: Nanos(stamp),
        scale: if odd { Scale::from_parts(1 << 31, 1) } else { Scale::from_parts(1 << 30, 2) },
        stable: odd,
    }
}

fn stress_time_page<M: Memory>(reads: u64)
where
    TimePage<M>: Sync,
{
    let page = TimePage::<M>::from_info(&Default::default());
    let mut writer = TimeWriter::new(&page);
    writer.write(&time_update(0));
    let reader = TimeReader::new(&page);
    let starved = read_beside_a_writer(
        reads,
        |update| writer.write(&time_update(update)),
        || reader.nanos(&|| COUNTER).map(|now| now.0),
    );
    println!(
        "{reads} reads, {} updates, starved {starved} times",
        reader.info().unwrap().version / 2
    );
}

#[test]
fn time_page() {
    stress_time_page::<Aligned>(reads(100_000_000));
}

#[test]
fn time_page_in_split_words() {
    stress_time_page::<Split>(reads(10_000_000));
}

/// At scale 2^63 a unit is two cycles; the offset makes up for it.
#[test]
fn hyperv_page() {
    let page = ReferencePage::<Aligned>::new();
    let mut writer = ReferenceWriter::new(&page);
    let reader = ReferenceReader::new(&page);
    let write = |update: u64| {
        let scale = (update.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 1) & !0xffff;
        let units = ((u128::from(COUNTER) * u128::from(scale)) >> 64) as u64;
        let offset = COUNTER.cast_signed() - units.cast_signed();
        writer.write(ReferenceScale::from_raw(scale), offset);
    };
    let reads = reads(10_000_000);
    let off = read_beside_a_writer(reads, write, || reader.units_100ns(&|| COUNTER));
    println!("{reads} reads, found switched off {off} times");
}

/// Whatever was published, the time that a bound is from and the bound add up to
/// the counter. (16 bits of generation come round within such a stretch: that a
/// reader is held up for just so long is not seen.)
#[test]
fn clockbound_segment() {
    let bound = |update: u64| {
        let as_of_ns = update % (1 << 49);
        SegmentBound {
            as_of_ns,
            void_after_ns: as_of_ns,
            bound_ns: COUNTER - as_of_ns,
            ..SegmentBound::UNKNOWN
        }
    };
    for layout in Layout::ALL {
        let page: SegmentPage = SegmentPage::new(layout);
        let mut writer = SegmentWriter::new(&page, layout);
        writer.write(&bound(0));
        let reader = SegmentReader::new(&page).unwrap();
        let starved = read_beside_a_writer(
            reads(3_000_000),
            |update| _ = writer.write(&bound(update * 0x9e37_79b9)),
            || {
                let read = reader.read()?;
                assert_eq!(read.void_after_ns, read.as_of_ns);
                Ok(read.as_of_ns + read.bound_ns)
            },
        );
        println!("{layout:?}: starved {starved} times");
    }
}
