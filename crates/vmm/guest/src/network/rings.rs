//! The memory that driver and device share: two split virtqueues and their buffers
//! (virtio 1.2, 2.7). All of it is atomics, and zeroed memory is a valid value.

use core::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering, fence};

/// Descriptors of a queue: twice the most that is in flight.
pub const SIZE: usize = 128;

/// Words of a buffer: room for a ping's frame behind virtio's header.
pub const BUFFER_WORDS: usize = 16;

/// VIRTQ_DESC_F_WRITE.
const WRITE: u16 = 2;
/// VIRTQ_AVAIL_F_NO_INTERRUPT, and VIRTQ_USED_F_NO_NOTIFY.
const NO_EVENT: u16 = 1;

#[derive(Debug)]
#[repr(C, align(16))]
struct Descriptor {
    address: AtomicU64,
    length: AtomicU32,
    flags: AtomicU16,
    next: AtomicU16,
}

#[derive(Debug)]
#[repr(C, align(4))]
struct Available {
    flags: AtomicU16,
    index: AtomicU16,
    ring: [AtomicU16; SIZE],
    used_event: AtomicU16,
}

#[derive(Debug)]
#[repr(C)]
struct UsedElement {
    id: AtomicU32,
    length: AtomicU32,
}

#[derive(Debug)]
#[repr(C, align(4))]
struct Used {
    flags: AtomicU16,
    index: AtomicU16,
    ring: [UsedElement; SIZE],
    available_event: AtomicU16,
}

/// A queue, each of whose descriptors has a buffer of its own for good.
#[derive(Debug)]
#[repr(C, align(4096))]
pub struct Queue {
    descriptors: [Descriptor; SIZE],
    available: Available,
    used: Used,
    buffers: [[AtomicU64; BUFFER_WORDS]; SIZE],
}

/// Both queues, by their numbers.
#[derive(Debug)]
#[repr(C)]
pub struct Area {
    /// What the device fills.
    pub receive: Queue,
    /// What it sends.
    pub send: Queue,
}

/// Whether `event` is among the indices from `old` to before `new` (virtio 1.2, 2.7.7.1
/// and 2.7.10; `vring_need_event`, include/uapi/linux/virtio_ring.h).
///
/// ```
/// use guest::network::rings::is_among;
///
/// assert!(is_among(7, 7, 8));
/// assert!(!is_among(6, 7, 8) && !is_among(8, 7, 8));
/// assert!(is_among(65_535, 65_530, 2), "indices wrap");
/// ```
pub const fn is_among(event: u16, old: u16, new: u16) -> bool {
    new.wrapping_sub(event).wrapping_sub(1) < new.wrapping_sub(old)
}

impl Queue {
    /// Where its three parts are, of a queue that is `at` this guest address.
    pub const fn addresses(at: u64) -> [u64; 3] {
        [
            at + core::mem::offset_of!(Self, descriptors) as u64,
            at + core::mem::offset_of!(Self, available) as u64,
            at + core::mem::offset_of!(Self, used) as u64,
        ]
    }

    /// As after the device's reset. The buffers are the device's to write or to read.
    pub(super) fn reset(&self, at: u64, writable: bool) {
        let buffers = at + core::mem::offset_of!(Self, buffers) as u64;
        for (index, descriptor) in self.descriptors.iter().enumerate() {
            let bytes = 8 * BUFFER_WORDS;
            descriptor.address.store(buffers + (index * bytes) as u64, Ordering::Relaxed);
            descriptor.length.store(bytes as u32, Ordering::Relaxed);
            descriptor.flags.store(if writable { WRITE } else { 0 }, Ordering::Relaxed);
            descriptor.next.store(0, Ordering::Relaxed);
        }
        for word in [&self.available.flags, &self.available.index, &self.available.used_event] {
            word.store(0, Ordering::Relaxed);
        }
        for word in [&self.used.flags, &self.used.index, &self.used.available_event] {
            word.store(0, Ordering::Relaxed);
        }
    }

    /// Whether the device is to interrupt: without event index.
    pub(super) fn want_interrupts(&self, wanted: bool) {
        self.available.flags.store(if wanted { 0 } else { NO_EVENT }, Ordering::Relaxed);
    }

    /// That the device is to interrupt when it has used the buffer of this index.
    pub(super) fn interrupt_at(&self, index: u16) {
        self.available.used_event.store(index, Ordering::Relaxed);
        // What is used before the device sees this is seen by a look after this.
        fence(Ordering::SeqCst);
    }

    /// Writes a frame into the buffer of the descriptor.
    pub(super) fn fill(&self, descriptor: usize, bytes: &[u8]) {
        for (word, part) in self.buffers[descriptor].iter().zip(bytes.chunks(8)) {
            let mut whole = [0; 8];
            whole[..part.len()].copy_from_slice(part);
            word.store(u64::from_le_bytes(whole), Ordering::Relaxed);
        }
        self.descriptors[descriptor].length.store(bytes.len() as u32, Ordering::Relaxed);
    }

    /// Makes descriptors available from `index` on; nothing is published yet.
    pub(super) fn offer(&self, index: u16, descriptor: usize) {
        self.available.ring[usize::from(index) % SIZE].store(descriptor as u16, Ordering::Relaxed);
    }

    /// Publishes those before `new`, and returns whether the device is to be notified;
    /// it was last about those before `old`.
    pub(super) fn publish(&self, old: u16, new: u16, event_index: bool) -> bool {
        self.available.index.store(new, Ordering::Release);
        // The index is written before the device's wish is read.
        fence(Ordering::SeqCst);
        if event_index {
            is_among(self.used.available_event.load(Ordering::Relaxed), old, new)
        } else {
            self.used.flags.load(Ordering::Relaxed) & NO_EVENT == 0
        }
    }

    /// How many buffers the device has used.
    pub(super) fn used(&self) -> u16 {
        self.used.index.load(Ordering::Acquire)
    }

    /// The used buffer of this index: its descriptor, and what is in it.
    pub(super) fn read(&self, index: u16) -> (usize, [u8; 8 * BUFFER_WORDS], usize) {
        let element = &self.used.ring[usize::from(index) % SIZE];
        let descriptor = element.id.load(Ordering::Relaxed) as usize % SIZE;
        let mut bytes = [0; 8 * BUFFER_WORDS];
        for (part, word) in bytes.chunks_exact_mut(8).zip(&self.buffers[descriptor]) {
            part.copy_from_slice(&word.load(Ordering::Relaxed).to_le_bytes());
        }
        let length = (element.length.load(Ordering::Relaxed) as usize).min(bytes.len());
        (descriptor, bytes, length)
    }
}
