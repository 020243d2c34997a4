//! The protocol of host and guest: a mailbox and a ring for each vCPU, in shared
//! memory. All of it is atomic words. The host trusts nothing that it reads here,
//! and checks the bounds.
//!
//! A request is a number that differs from the last one's, and words; the reply
//! has the same number. Series go through the ring: the guest owns `head`, the
//! host `tail`, and both only count up.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::layout::{PAGES, SHARED, VCPUS_MAX};
use crate::lock::Contended;

/// The version of all that is in [`SharedArea`].
pub const VERSION: u32 = 1;

/// Words of a request, a reply and a record.
pub const WORDS: usize = 6;

/// Records a ring holds.
pub const RECORDS: u64 = 512;

/// The content of a request, a reply or a record.
pub type Words = [u64; WORDS];

/// The words; `request` defines their meaning.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct GuestMessage {
    /// The number of the request, or of the one that this reply or record belongs to.
    number: AtomicU64,
    /// The code of the request, or its outcome.
    code: AtomicU64,
    words: [AtomicU64; WORDS],
}

impl GuestMessage {
    const fn new() -> Self {
        Self {
            number: AtomicU64::new(0),
            code: AtomicU64::new(0),
            words: [const { AtomicU64::new(0) }; WORDS],
        }
    }

    /// Writes it, its number last.
    pub fn post(&self, number: u64, code: u64, words: &Words) {
        self.code.store(code, Ordering::Relaxed);
        for (shared, word) in self.words.iter().zip(words) {
            shared.store(*word, Ordering::Relaxed);
        }
        self.number.store(number, Ordering::Release);
    }

    /// Its number: the content is complete once this has changed.
    pub fn number(&self) -> u64 {
        self.number.load(Ordering::Acquire)
    }

    /// Its content.
    pub fn read(&self) -> (u64, Words) {
        let words = core::array::from_fn(|index| self.words[index].load(Ordering::Relaxed));
        (self.code.load(Ordering::Relaxed), words)
    }
}

/// Records from guest to host.
#[derive(Debug)]
#[repr(C)]
pub struct Ring {
    head: AtomicU64,
    tail: AtomicU64,
    records: [GuestMessage; RECORDS as usize],
}

/// The guest's side of a ring holds more records than fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flooded {
    /// Records written, according to the guest.
    pub head: u64,
    /// Records read.
    pub tail: u64,
}

impl Ring {
    const fn new() -> Self {
        Self {
            head: AtomicU64::new(0),
            tail: AtomicU64::new(0),
            records: [const { GuestMessage::new() }; RECORDS as usize],
        }
    }

    /// Guest: adds a record, or returns it where the ring is full.
    ///
    /// # Errors
    /// The record.
    pub fn push(&self, code: u64, words: &Words) -> Result<(), Words> {
        let head = self.head.load(Ordering::Relaxed);
        if head.wrapping_sub(self.tail.load(Ordering::Acquire)) >= RECORDS {
            return Err(*words);
        }
        self.record(head).post(head, code, words);
        self.head.store(head.wrapping_add(1), Ordering::Release);
        Ok(())
    }

    /// Host: takes the oldest record; `tail` is the host's own count, because
    /// the guest may have changed the one in shared memory.
    ///
    /// # Errors
    /// [`Flooded`].
    pub fn pop(&self, tail: &mut u64) -> Result<Option<(u64, Words)>, Flooded> {
        let head = self.head.load(Ordering::Acquire);
        match head.wrapping_sub(*tail) {
            0 => Ok(None),
            waiting if waiting > RECORDS => Err(Flooded { head, tail: *tail }),
            _ => {
                let record = self.record(*tail).read();
                *tail = tail.wrapping_add(1);
                self.tail.store(*tail, Ordering::Release);
                Ok(Some(record))
            }
        }
    }

    /// Guest, misbehaving: claims `records` more than it wrote.
    pub fn claim(&self, records: u64) {
        self.head.fetch_add(records, Ordering::Release);
    }

    fn record(&self, index: u64) -> &GuestMessage {
        &self.records[(index % RECORDS) as usize]
    }
}

/// One vCPU's part.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct VcpuPage {
    /// Written by the host.
    pub request: GuestMessage,
    /// Written by the guest.
    pub reply: GuestMessage,
    /// Its exception: vector, error code, RIP, CR2, RSP, CS.
    pub last_words: GuestMessage,
    /// Series.
    pub ring: Ring,
}

/// Everything that host and guest share except the clock pages.
#[derive(Debug)]
#[repr(C, align(4096))]
pub struct SharedArea {
    /// [`VERSION`], written by the guest when its vCPU 0 is up.
    pub version: AtomicU32,
    unused: AtomicU32,
    /// The latest time that any vCPU has published, ns: the lower limit of
    /// clocks that are not synchronised, and the reference of the monotonic
    /// test.
    pub last_time_ns: AtomicU64,
    /// vCPUs that are ready for a test that all start at once.
    pub ready: AtomicU64,
    vcpus: [VcpuPage; VCPUS_MAX],
    /// The lock of an experiment on locks.
    pub contended: Contended,
}

impl SharedArea {
    /// The offset of the vCPUs' parts.
    pub const VCPUS_OFFSET: usize = core::mem::offset_of!(Self, vcpus);

    /// Empty, as zeroed memory is.
    pub const fn new() -> Self {
        Self {
            version: AtomicU32::new(0),
            unused: AtomicU32::new(0),
            last_time_ns: AtomicU64::new(0),
            ready: AtomicU64::new(0),
            vcpus: [const {
                VcpuPage {
                    request: GuestMessage::new(),
                    reply: GuestMessage::new(),
                    last_words: GuestMessage::new(),
                    ring: Ring::new(),
                }
            }; VCPUS_MAX],
            contended: Contended::new(),
        }
    }

    /// A vCPU's part.
    ///
    /// # Panics
    /// There is no such vCPU.
    pub fn vcpu(&self, index: usize) -> &VcpuPage {
        &self.vcpus[index]
    }
}

const _: () = assert!(SHARED + size_of::<SharedArea>() as u64 <= PAGES);

impl Default for SharedArea {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_gives_what_was_put_in_order_and_no_more_than_it_holds() {
        let ring = Ring::new();
        let mut tail = 0;
        assert_eq!(ring.pop(&mut tail), Ok(None));
        for index in 0..RECORDS {
            ring.push(7, &[index; WORDS]).unwrap();
        }
        assert_eq!(ring.push(7, &[9; WORDS]), Err([9; WORDS]));
        for index in 0..RECORDS {
            assert_eq!(ring.pop(&mut tail), Ok(Some((7, [index; WORDS]))));
        }
        assert_eq!(ring.pop(&mut tail), Ok(None));
        ring.push(8, &[1; WORDS]).unwrap();
        assert_eq!(ring.pop(&mut tail), Ok(Some((8, [1; WORDS]))));
    }

    #[test]
    fn a_flood_is_told() {
        let ring = Ring::new();
        let mut tail = 0;
        ring.claim(RECORDS + 1);
        assert_eq!(ring.pop(&mut tail), Err(Flooded { head: RECORDS + 1, tail: 0 }));
        ring.claim(u64::MAX - RECORDS - 1);
        assert_eq!(ring.pop(&mut tail), Err(Flooded { head: u64::MAX, tail: 0 }));
    }

    #[test]
    fn a_message_is_read_as_it_was_written() {
        let message = GuestMessage::default();
        message.post(3, 4, &[1, 2, 3, 4, 5, 6]);
        assert_eq!((message.number(), message.read()), (3, (4, [1, 2, 3, 4, 5, 6])));
    }
}
