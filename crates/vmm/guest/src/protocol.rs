//! The protocol of host and guest: a mailbox and records for each vCPU, in shared
//! memory. All of it is atomic words. The host trusts nothing that it reads here,
//! and checks the bounds.
//!
//! A request is a number that differs from the last one's, and words; the reply
//! has the same number. Series are records, written before the reply.

use core::sync::atomic::{AtomicU64, Ordering};

use crate::layout::{PAGES, SHARED, VCPUS_MAX};
use crate::lock::Contended;

/// Words of a request, a reply and a record.
pub const WORDS: usize = 6;

/// Records of a request, at the most.
pub const RECORDS: usize = 512;

/// The content of a request, a reply or a record.
pub type Words = [u64; WORDS];

/// The words; `request` defines their meaning.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct GuestMessage {
    /// The number of the request, or of the one that this reply belongs to.
    number: AtomicU64,
    /// The code of the request, or its outcome.
    code: AtomicU64,
    words: [AtomicU64; WORDS],
}

impl GuestMessage {
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

/// Records of one request from guest to host, complete once its reply is there; those of the
/// next request replace them.
#[derive(Debug)]
#[repr(C)]
pub struct Records {
    count: AtomicU64,
    records: [[AtomicU64; WORDS]; RECORDS],
}

impl Records {
    /// Guest: forgets those of the request before.
    pub fn clear(&self) {
        self.count.store(0, Ordering::Relaxed);
    }

    /// Guest: adds a record, where there is room.
    pub fn push(&self, words: &Words) {
        let count = self.count.load(Ordering::Relaxed);
        if let Some(record) = self.records.get(count as usize) {
            for (shared, word) in record.iter().zip(words) {
                shared.store(*word, Ordering::Relaxed);
            }
            self.count.store(count + 1, Ordering::Relaxed);
        }
    }

    /// Host: how many there are, according to the guest.
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Host: so many of them, as far as there is room for them.
    pub fn read(&self, count: u64) -> impl Iterator<Item = Words> {
        let records = self.records.iter().take(count as usize);
        records.map(|record| record.each_ref().map(|word| word.load(Ordering::Relaxed)))
    }

    /// Guest, misbehaving: claims `records` more than it wrote.
    pub fn claim(&self, records: u64) {
        self.count.fetch_add(records, Ordering::Relaxed);
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
    pub records: Records,
}

/// Everything that host and guest share except the clock pages. Zeroed memory is a valid value.
#[derive(Debug)]
#[repr(C, align(4096))]
pub struct SharedArea {
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

    /// A vCPU's part.
    ///
    /// # Panics
    /// There is no such vCPU.
    pub fn vcpu(&self, index: usize) -> &VcpuPage {
        &self.vcpus[index]
    }
}

const _: () = assert!(SHARED + size_of::<SharedArea>() as u64 <= PAGES);

#[cfg(test)]
mod tests {
    use super::*;

    fn records() -> Records {
        let records = core::array::from_fn(|_| [const { AtomicU64::new(0) }; WORDS]);
        Records { count: AtomicU64::new(0), records }
    }

    #[test]
    fn records_are_read_in_order_and_no_more_than_there_is_room_for() {
        let records = records();
        assert_eq!(records.read(records.count()).count(), 0);
        (0..=RECORDS as u64).for_each(|index| records.push(&[index; WORDS]));
        assert_eq!(records.count(), RECORDS as u64);
        assert!(records.read(u64::MAX).eq((0..RECORDS as u64).map(|index| [index; WORDS])));
        records.clear();
        records.push(&[9; WORDS]);
        assert!(records.read(records.count()).eq([[9; WORDS]]));
    }

    #[test]
    fn a_flood_is_counted_as_claimed() {
        let records = records();
        records.claim(RECORDS as u64 + 1);
        assert_eq!(records.count(), RECORDS as u64 + 1);
        records.claim(u64::MAX - RECORDS as u64 - 1);
        records.push(&[1; WORDS]);
        assert_eq!(records.count(), u64::MAX, "there is no such place");
    }

    #[test]
    fn a_message_is_read_as_it_was_written() {
        let message = GuestMessage::default();
        message.post(3, 4, &[1, 2, 3, 4, 5, 6]);
        assert_eq!((message.number(), message.read()), (3, (4, [1, 2, 3, 4, 5, 6])));
    }
}
