//! Frames out of the one ring and into the other.

use std::sync::atomic::Ordering;

use virtio_bindings::bindings::virtio_config::VIRTIO_CONFIG_S_NEEDS_RESET;
use virtio_bindings::bindings::virtio_ring::VRING_AVAIL_F_NO_INTERRUPT;
use virtio_queue::{Error, Queue, QueueOwnedT, QueueT};
use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};

use super::{NetworkCard, QUEUE_MAX, RECEIVE, SEND};

/// `struct virtio_net_hdr_v1`.
pub const HEADER: usize = 12;

/// Ethernet's longest frame without its checksum.
pub const FRAME_MAX: usize = 1514;

/// What became of the frames of one call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PassedFrames {
    /// Taken from the guest, or given to it.
    pub frames: u64,
    /// Dropped: malformed, or without a buffer.
    pub dropped: u64,
    /// Bytes copied.
    pub bytes: u64,
    /// Whether the guest is to be interrupted.
    pub interrupts: bool,
}

impl NetworkCard {
    /// Takes what the guest sent since the last call, each frame for `take`.
    pub fn sent(&mut self, memory: &GuestMemoryMmap, mut take: impl FnMut(&[u8])) -> PassedFrames {
        let mut passed = PassedFrames::default();
        if self.is_ready() {
            let queue = &mut self.queues[SEND];
            let took = take_all(queue, memory, self.wants_notifications, &mut take, &mut passed);
            self.keep(took, passed);
            self.counts.sent += passed.frames;
        }
        passed
    }

    /// Gives the guest these frames.
    pub fn received<'f>(
        &mut self,
        memory: &GuestMemoryMmap,
        frames: impl IntoIterator<Item = &'f [u8]>,
    ) -> PassedFrames {
        let mut passed = PassedFrames::default();
        if self.is_ready() {
            let queue = &mut self.queues[RECEIVE];
            let gave = give_all(queue, memory, frames, &mut passed);
            self.keep(gave, passed);
            self.counts.received += passed.frames;
        }
        passed
    }

    /// A ring that its guest broke is not looked at again before a reset.
    fn keep(&mut self, result: Result<(), Error>, passed: PassedFrames) {
        if result.is_err() {
            self.status |= VIRTIO_CONFIG_S_NEEDS_RESET;
        }
        self.counts.dropped += passed.dropped;
        self.counts.bytes += passed.bytes;
    }
}

fn take_all(
    queue: &mut Queue,
    memory: &GuestMemoryMmap,
    wants_notifications: bool,
    take: &mut impl FnMut(&[u8]),
    passed: &mut PassedFrames,
) -> Result<(), Error> {
    queue.disable_notification(memory)?;
    // Twice: what came before the guest saw that it is to notify again.
    for _ in 0..2 {
        for _ in 0..QUEUE_MAX {
            let Some(chain) = queue.iter(memory)?.next() else { break };
            let head = chain.head_index();
            let mut frame = Vec::with_capacity(HEADER + FRAME_MAX);
            let mut is_whole = true;
            for descriptor in chain.take(QUEUE_MAX.into()).filter(|one| !one.is_write_only()) {
                let (from, length) = (frame.len(), descriptor.len() as usize);
                is_whole &= length <= HEADER + FRAME_MAX - from;
                if !is_whole {
                    break;
                }
                frame.resize(from + length, 0);
                is_whole = memory.read_slice(&mut frame[from..], descriptor.addr()).is_ok();
            }
            if is_whole && frame.len() > HEADER {
                passed.frames += 1;
                passed.bytes += frame.len() as u64;
                take(&frame[HEADER..]);
            } else {
                passed.dropped += 1;
            }
            queue.add_used(memory, head, 0)?;
        }
        if !wants_notifications || !queue.enable_notification(memory)? {
            break;
        }
    }
    passed.interrupts = passed.frames + passed.dropped > 0 && interrupts(queue, memory)?;
    Ok(())
}

fn give_all<'f>(
    queue: &mut Queue,
    memory: &GuestMemoryMmap,
    frames: impl IntoIterator<Item = &'f [u8]>,
    passed: &mut PassedFrames,
) -> Result<(), Error> {
    // A frame without a buffer is dropped, so there is nothing to be told.
    queue.disable_notification(memory)?;
    for frame in frames {
        let Some(chain) = queue.iter(memory)?.next() else {
            passed.dropped += 1;
            continue;
        };
        let head = chain.head_index();
        let mut packet = vec![0; HEADER];
        // One buffer: VIRTIO_NET_F_MRG_RXBUF is not offered, and num_buffers is 1.
        packet[HEADER - 2] = 1;
        packet.extend_from_slice(frame);
        let mut rest = packet.as_slice();
        for descriptor in chain.take(QUEUE_MAX.into()).filter(|one| one.is_write_only()) {
            let (part, after) = rest.split_at(rest.len().min(descriptor.len() as usize));
            if memory.write_slice(part, descriptor.addr()).is_err() {
                break;
            }
            rest = after;
        }
        let written = if rest.is_empty() { packet.len() } else { 0 };
        if written > 0 {
            passed.frames += 1;
            passed.bytes += written as u64;
        } else {
            passed.dropped += 1;
        }
        queue.add_used(memory, head, written as u32)?;
    }
    passed.interrupts = passed.frames > 0 && interrupts(queue, memory)?;
    Ok(())
}

/// Whether the guest wants to know. virtio-queue answers for event index alone.
fn interrupts(queue: &mut Queue, memory: &GuestMemoryMmap) -> Result<bool, Error> {
    let wanted = queue.needs_notification(memory)?;
    if queue.event_idx_enabled() {
        return Ok(wanted);
    }
    let flags: u16 = memory
        .load(GuestAddress(queue.avail_ring()), Ordering::Relaxed)
        .map_err(Error::GuestMemory)?;
    Ok(u32::from(u16::from_le(flags)) & VRING_AVAIL_F_NO_INTERRUPT == 0)
}
