//! The network card of `vmm` under a driver that writes anything to its registers, rings
//! and buffers, in any order.
//!
//! The bytes are a program: an operation and its operands. What is checked: a call ends
//! after as many frames as its rings have room for, no frame is longer than Ethernet's,
//! what is counted is what was passed, and a card whose rings were broken passes nothing
//! before a reset.

use vm_memory::{Bytes as _, GuestAddress, GuestMemoryMmap};
use vmm::devices::network::{FRAME_MAX, NetworkCard, QUEUE_MAX, echo};

use crate::bytes::Bytes;

/// Room for rings and some buffers: a small memory is soon full of rings.
const MEMORY: usize = 0x1_0000;
const STEPS: usize = 2_000;

/// STATUS, QueueSel, and what sets a queue's place.
const STATUS: u64 = 0x70;
const RINGS: [[u32; 3]; 2] = [[0x1000, 0x2000, 0x3000], [0x4000, 0x5000, 0x6000]];

/// Runs the program.
pub(crate) fn network(data: &[u8]) {
    let mut bytes = Bytes(data);
    let memory = GuestMemoryMmap::from_ranges(&[(GuestAddress(0), MEMORY)]).expect("64 KiB");
    let mut card = NetworkCard::default();
    let mut replies = Vec::new();
    for _ in 0..STEPS {
        let Some(operation) = bytes.next() else { break };
        match operation % 8 {
            0 => set_up(&mut card, bytes.number(1)),
            1 => {
                let (offset, length) = (bytes.number(2) & 0x1ff, bytes.number(1) as usize % 9);
                card.write(offset, &bytes.take(length));
                card.read(offset, &mut vec![0; length]);
            }
            2 | 3 => {
                let (at, length) = (bytes.number(2), bytes.number(1) as usize % 32);
                // Beyond the end there is nothing to write to.
                let _ = memory.write_slice(&bytes.take(length), GuestAddress(at));
            }
            4 => card.want_notifications(bytes.number(1) & 1 == 0),
            5 => give(&mut card, &memory, &replies),
            _ => take(&mut card, &memory, &mut replies),
        }
    }
}

/// As a driver in its right mind does: a queue's size is that power of two.
fn set_up(card: &mut NetworkCard, choice: u64) {
    let mut set = |offset: u64, value: u32| card.write(offset, &value.to_le_bytes());
    set(STATUS, 0);
    set(STATUS, 3);
    for (half, features) in [(0, (choice as u32 & 1) << 29), (1, 1)] {
        set(0x24, half);
        set(0x20, features);
    }
    set(STATUS, 11);
    for (number, parts) in (0..).zip(RINGS) {
        set(0x30, number);
        set(0x38, 1 << (choice >> 1 & 7));
        for (offset, part) in [0x80, 0x90, 0xa0].into_iter().zip(parts) {
            set(offset, part);
        }
        set(0x44, 1);
    }
    set(STATUS, 15);
}

fn take(card: &mut NetworkCard, memory: &GuestMemoryMmap, replies: &mut Vec<Vec<u8>>) {
    let was_ready = card.is_ready();
    let (mut frames, mut longest) = (0, 0);
    replies.clear();
    let passed = card.sent(memory, |frame| {
        frames += 1;
        longest = longest.max(frame.len());
        replies.extend(echo::reply(frame).filter(|_| frames <= u64::from(QUEUE_MAX)));
    });
    assert!(longest <= FRAME_MAX, "a frame of {longest} bytes");
    assert_eq!(passed.frames, frames);
    assert!(frames + passed.dropped <= 2 * u64::from(QUEUE_MAX));
    assert!(was_ready || frames + passed.dropped == 0);
}

fn give(card: &mut NetworkCard, memory: &GuestMemoryMmap, replies: &[Vec<u8>]) {
    let was_ready = card.is_ready();
    let passed = card.received(memory, replies.iter().map(Vec::as_slice));
    assert!(passed.frames + passed.dropped <= replies.len() as u64);
    assert!(was_ready || passed.frames + passed.dropped == 0);
    assert!(!passed.interrupts || passed.frames > 0);
}
