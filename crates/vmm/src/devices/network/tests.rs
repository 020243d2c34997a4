//! The card under drivers of hand-made rings, most of them hostile.

use guest::network::ping;
use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};

use super::*;

const SIZE: u16 = 8;
const MEMORY: usize = 0x1_0000;
/// Of each queue: descriptors, available and used ring.
const RINGS: [[u64; 3]; 2] = [[0x1000, 0x2000, 0x3000], [0x4000, 0x5000, 0x6000]];
const BUFFERS: u64 = 0x8000;
const NEXT: u16 = 1;
const WRITE: u16 = 2;
const INDIRECT: u16 = 4;

/// Whether the guest has broken its rings.
const fn needs_reset(card: &NetworkCard) -> bool {
    card.status & VIRTIO_CONFIG_S_NEEDS_RESET != 0
}

struct Driver {
    card: NetworkCard,
    memory: GuestMemoryMmap,
}

impl Driver {
    fn new(event_index: bool) -> Self {
        let memory = GuestMemoryMmap::from_ranges(&[(GuestAddress(0), MEMORY)]).unwrap();
        let mut new = Self { card: NetworkCard::default(), memory };
        new.set_up(event_index, u32::from(SIZE));
        new
    }

    fn set_up(&mut self, event_index: bool, size: u32) {
        self.set(mmio::VIRTIO_MMIO_STATUS, 0);
        self.set(mmio::VIRTIO_MMIO_STATUS, 3);
        for (half, features) in [(0, u32::from(event_index) << 29), (1, 1)] {
            self.set(mmio::VIRTIO_MMIO_DRIVER_FEATURES_SEL, half);
            self.set(mmio::VIRTIO_MMIO_DRIVER_FEATURES, features);
        }
        self.set(mmio::VIRTIO_MMIO_STATUS, 11);
        for (number, [descriptors, available, used]) in (0..).zip(RINGS) {
            self.set(mmio::VIRTIO_MMIO_QUEUE_SEL, number);
            self.set(mmio::VIRTIO_MMIO_QUEUE_NUM, size);
            self.set(mmio::VIRTIO_MMIO_QUEUE_DESC_LOW, descriptors as u32);
            self.set(mmio::VIRTIO_MMIO_QUEUE_AVAIL_LOW, available as u32);
            self.set(mmio::VIRTIO_MMIO_QUEUE_USED_LOW, used as u32);
            self.set(mmio::VIRTIO_MMIO_QUEUE_READY, 1);
        }
        self.set(mmio::VIRTIO_MMIO_STATUS, 15);
    }

    fn set(&mut self, register: u32, value: u32) {
        self.card.write(register.into(), &value.to_le_bytes());
    }

    fn get(&self, register: u32) -> u32 {
        let mut data = [0xff; 4];
        self.card.read(register.into(), &mut data);
        u32::from_le_bytes(data)
    }

    fn write<T: vm_memory::ByteValued>(&self, at: u64, value: T) {
        self.memory.write_obj(value, GuestAddress(at)).unwrap();
    }

    fn read<T: vm_memory::ByteValued>(&self, at: u64) -> T {
        self.memory.read_obj(GuestAddress(at)).unwrap()
    }

    fn describe(&self, queue: usize, index: u16, (at, length): (u64, u32), flags: u16, next: u16) {
        let place = RINGS[queue][0] + 16 * u64::from(index);
        self.write(place, at);
        self.write(place + 8, length);
        self.write(place + 12, flags);
        self.write(place + 14, next);
    }

    /// Offers descriptors from this index on; publishes `published`.
    fn offer(&self, queue: usize, from: u16, heads: &[u16], published: u16) {
        for (place, head) in (u64::from(from)..).zip(heads) {
            self.write(RINGS[queue][1] + 4 + 2 * (place % u64::from(SIZE)), *head);
        }
        self.write(RINGS[queue][1] + 2, published);
    }

    fn sent(&mut self) -> (PassedFrames, Vec<Vec<u8>>) {
        let mut frames = Vec::new();
        let passed = self.card.sent(&self.memory, |frame| frames.push(frame.to_vec()));
        (passed, frames)
    }

    fn used(&self, queue: usize) -> u16 {
        self.read(RINGS[queue][2] + 2)
    }
}

#[test]
fn a_ping_is_sent_in_two_buffers_and_its_reply_comes_in_two() {
    let mut driver = Driver::new(false);
    let request = ping::request(5);
    driver.memory.write_slice(&request, GuestAddress(BUFFERS)).unwrap();
    driver.describe(SEND, 3, (BUFFERS, 20), NEXT, 6);
    driver.describe(SEND, 6, (BUFFERS + 20, request.len() as u32 - 20), 0, 0);
    driver.offer(SEND, 0, &[3], 1);
    let (passed, frames) = driver.sent();
    assert_eq!((passed.frames, passed.bytes, passed.interrupts), (1, request.len() as u64, true));
    assert_eq!(frames, [request[HEADER..].to_vec()]);
    assert_eq!((driver.used(SEND), driver.read::<u32>(RINGS[SEND][2] + 4)), (1, 3));

    let reply = echo::reply(&frames[0]).unwrap();
    driver.describe(RECEIVE, 0, (0x9000, 50), NEXT | WRITE, 1);
    driver.describe(RECEIVE, 1, (0xa000, 200), WRITE, 0);
    driver.offer(RECEIVE, 0, &[0], 1);
    let passed = driver.card.received(&driver.memory, [reply.as_slice()]);
    assert_eq!((passed.frames, passed.interrupts), (1, true));
    let written: u32 = driver.read(RINGS[RECEIVE][2] + 8);
    let mut whole = vec![0; written as usize];
    driver.memory.read_slice(&mut whole[..50], GuestAddress(0x9000)).unwrap();
    driver.memory.read_slice(&mut whole[50..], GuestAddress(0xa000)).unwrap();
    assert_eq!(ping::reply(&whole), Some(5));
    // No buffer, and one that is too small: dropped, and the guest is not interrupted.
    let none = driver.card.received(&driver.memory, [reply.as_slice()]);
    assert_eq!((none.frames, none.dropped, none.interrupts), (0, 1, false));
    driver.describe(RECEIVE, 2, (0x9000, 50), WRITE, 0);
    driver.offer(RECEIVE, 1, &[2], 2);
    assert_eq!(driver.card.received(&driver.memory, [reply.as_slice()]).dropped, 1);
    assert!(driver.card.is_ready());
}

#[test]
fn notifications_and_interrupts_are_made_where_they_are_wanted() {
    for event_index in [false, true] {
        let mut driver = Driver::new(event_index);
        driver.describe(SEND, 0, (BUFFERS, 64), 0, 0);
        let wants = |driver: &Driver| {
            let [flags, event]: [u16; 2] =
                [RINGS[SEND][2], RINGS[SEND][2] + 4 + 8 * u64::from(SIZE)]
                    .map(|at| driver.read(at));
            if event_index { event == driver.used(SEND) } else { flags == 0 }
        };
        // Not: by the flag, or by an index that it does not come to.
        let (unwanted, index) = (1_u16, 7_u16);
        driver.write(RINGS[SEND][1], unwanted);
        driver.write(RINGS[SEND][1] + 4 + 2 * u64::from(SIZE), index);
        driver.offer(SEND, 0, &[0, 0, 0], 3);
        let (passed, _) = driver.sent();
        assert_eq!((passed.frames, passed.interrupts), (3, false), "{event_index}");
        assert!(wants(&driver));
        driver.card.want_notifications(false);
        driver.offer(SEND, 3, &[0, 0, 0, 0, 0], 8);
        let (passed, _) = driver.sent();
        assert_eq!((passed.frames, passed.interrupts), (5, event_index), "past index 7");
        assert!(!wants(&driver), "it polls");
    }
}

#[test]
fn a_driver_that_floods_or_names_what_is_not_there_has_to_reset_the_card() {
    let corrupt: [fn(&Driver); 2] = [
        // Further ahead than the ring is long.
        |driver| driver.offer(SEND, 0, &[], SIZE + 1),
        // No such descriptor.
        |driver| driver.offer(SEND, 0, &[SIZE], 1),
    ];
    for corrupt in corrupt {
        let mut driver = Driver::new(true);
        driver.describe(SEND, 0, (BUFFERS, 64), 0, 0);
        corrupt(&driver);
        assert!(driver.sent().1.is_empty());
        assert!(needs_reset(&driver.card));
        assert_ne!(driver.get(mmio::VIRTIO_MMIO_STATUS) & 0x40, 0);
        // Nothing more, whatever is offered and told, before a reset.
        driver.set(mmio::VIRTIO_MMIO_STATUS, 15);
        driver.offer(SEND, 0, &[0], 1);
        assert_eq!(driver.sent().0, PassedFrames::default());
        driver.set_up(true, SIZE.into());
        assert_eq!(driver.sent().0.frames, 1);
    }
    // Rings that are not in the card's memory.
    let mut driver = Driver::new(false);
    driver.set(mmio::VIRTIO_MMIO_STATUS, 0);
    driver.set_up(false, SIZE.into());
    driver.card.queues[SEND].set_used_ring_address(Some(0xffff_fff0), None);
    driver.offer(SEND, 0, &[0], 1);
    driver.sent();
    assert!(needs_reset(&driver.card));
}

#[test]
fn cycles_and_frames_that_are_none_are_dropped_and_bounded() {
    let mut driver = Driver::new(false);
    // A cycle of two; one of nothing; through a table of its own, which is not offered.
    driver.describe(SEND, 0, (BUFFERS, 8), NEXT, 1);
    driver.describe(SEND, 1, (BUFFERS, 8), NEXT, 0);
    driver.describe(SEND, 2, (BUFFERS, 0), NEXT, 2);
    driver.describe(SEND, 3, (RINGS[SEND][0], 16 * u32::from(SIZE)), INDIRECT, 0);
    // Too long, too short, for the card to write, outside, and past the end of all.
    driver.describe(SEND, 4, (BUFFERS, u32::MAX), 0, 0);
    driver.describe(SEND, 5, (BUFFERS, HEADER as u32), 0, 0);
    driver.describe(SEND, 6, (BUFFERS, 64), WRITE, 0);
    driver.describe(SEND, 7, (u64::MAX - 8, 64), 0, 0);
    driver.offer(SEND, 0, &[2, 4, 5, 6, 7], 5);
    let (passed, frames) = driver.sent();
    assert_eq!((passed.dropped, frames.len(), driver.used(SEND)), (5, 0, 5));
    driver.offer(SEND, 5, &[0, 1, 3], 8);
    let (passed, frames) = driver.sent();
    assert!(frames.iter().all(|frame| frame.len() < 16 * usize::from(SIZE)), "a round, no more");
    assert_eq!((passed.frames + passed.dropped, driver.used(SEND)), (3, 8));
    assert!(driver.card.is_ready());
}

#[test]
fn a_guest_that_never_ends_sending_is_left_after_a_ring_s_length() {
    let mut driver = Driver::new(false);
    driver.describe(SEND, 0, (BUFFERS, 64), 0, 0);
    driver.offer(SEND, 0, &[0; SIZE as usize], SIZE);
    let mut taken = 0;
    // Another thread of the guest publishes one more for each that is taken.
    let memory = driver.memory.clone();
    driver.card.sent(&driver.memory, |_| {
        taken += 1;
        let more = SIZE.wrapping_add(taken);
        memory.write_obj(more, GuestAddress(RINGS[SEND][1] + 2)).unwrap();
    });
    assert_eq!(taken, 2 * QUEUE_MAX);
}

#[test]
fn registers_take_what_a_driver_may_write_alone() {
    let mut driver = Driver::new(true);
    assert!(driver.card.is_ready());
    // Once it is ready, queues stay.
    driver.set(mmio::VIRTIO_MMIO_QUEUE_READY, 0);
    assert_eq!(driver.get(mmio::VIRTIO_MMIO_QUEUE_READY), 1);
    // No such queue, register, or width.
    driver.set(mmio::VIRTIO_MMIO_QUEUE_SEL, u32::MAX);
    assert_eq!(driver.get(mmio::VIRTIO_MMIO_QUEUE_NUM_MAX), 0);
    for offset in [0x1fc, u64::MAX] {
        driver.card.write(offset, &[0xff; 4]);
        driver.card.write(offset, &[0xff; 8]);
        driver.card.read(offset, &mut []);
    }
    // Sizes that no queue has.
    driver.set_up(true, 0x1_0000);
    assert_eq!(driver.card.queues[SEND].size(), QUEUE_MAX);
    // Features that are not offered are not agreed on, and without them it is not ready.
    driver.set(mmio::VIRTIO_MMIO_STATUS, 0);
    for (half, features) in [(0, u32::MAX), (1, 1), (2, u32::MAX)] {
        driver.set(mmio::VIRTIO_MMIO_DRIVER_FEATURES_SEL, half);
        driver.set(mmio::VIRTIO_MMIO_DRIVER_FEATURES, features);
    }
    driver.set(mmio::VIRTIO_MMIO_STATUS, 15);
    assert_eq!(driver.get(mmio::VIRTIO_MMIO_STATUS), 3);
    assert!(!driver.card.is_ready());
}

#[test]
fn only_whole_echo_requests_are_answered() {
    let request = &ping::request(1)[HEADER..];
    assert!(echo::reply(request).is_some());
    // Any bit but of addresses, whose sums are no concern of ICMP, and of MACs.
    for bit in 12 * 8..request.len() * 8 {
        let mut other = request.to_vec();
        other[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(echo::reply(&other), None, "bit {bit}");
    }
    for length in 0..request.len() {
        assert_eq!(echo::reply(&request[..length]), None, "{length} bytes");
    }
    let padded = [request, &[0; 20]].concat();
    assert_eq!(echo::reply(&padded).map(|reply| reply.len()), Some(request.len()));
}
