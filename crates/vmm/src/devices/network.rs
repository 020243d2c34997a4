//! A network card: virtio-net by virtio-mmio (virtio 1.2, 5.1 and 4.2), with one queue
//! each way, no offloads and no control queue.
//!
//! # What a guest can make of it
//! The rings and buffers are the guest's, and may hold anything.
//!
//! | the guest | and the device |
//! | --- | --- |
//! | floods: an index further ahead than the queue is long | needs a reset |
//! | gives the number of no descriptor | needs a reset |
//! | makes a cycle or an endless chain | looks at as many descriptors as a queue has |
//! | sends a frame longer than Ethernet's, or shorter than its header | drops it |
//! | names memory that is not the device's | drops the frame, or needs a reset where it is a ring |
//! | gives no buffer, or too small a one | drops the frame that came |
//!
//! A reset is the guest's to make; until then nothing is read or written. One call
//! handles at most twice as many frames as a queue has descriptors.

pub mod echo;
mod queues;

use virtio_bindings::bindings::virtio_config::{
    VIRTIO_CONFIG_S_DRIVER_OK, VIRTIO_CONFIG_S_FEATURES_OK, VIRTIO_CONFIG_S_NEEDS_RESET,
    VIRTIO_F_VERSION_1,
};
use virtio_bindings::bindings::virtio_mmio as mmio;
use virtio_bindings::bindings::virtio_ring::VIRTIO_RING_F_EVENT_IDX;
use virtio_bindings::virtio_ids::VIRTIO_ID_NET;
use virtio_queue::{Queue, QueueT};

pub use queues::{FRAME_MAX, HEADER, PassedFrames};

/// Descriptors of a queue, at the most.
pub const QUEUE_MAX: u16 = 256;

/// The bytes of registers.
pub const BYTES: u64 = 0x200;

const RECEIVE: usize = 0;
const SEND: usize = 1;

/// What the device offers. Without VIRTIO_NET_F_MAC there is no configuration.
const FEATURES: u64 = 1 << VIRTIO_F_VERSION_1 | 1 << VIRTIO_RING_F_EVENT_IDX;

/// "PARA".
const VENDOR: u32 = u32::from_le_bytes(*b"PARA");

/// What a card has done so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NetworkCounts {
    /// Frames taken from the guest.
    pub sent: u64,
    /// Frames given to it.
    pub received: u64,
    /// Frames dropped.
    pub dropped: u64,
    /// Bytes copied, there and back.
    pub bytes: u64,
}

impl NetworkCounts {
    /// How often frames were copied, there and back.
    pub const fn copies(&self) -> u64 {
        self.sent + self.received
    }
}

/// The card.
#[derive(Debug)]
pub struct NetworkCard {
    pub(crate) counts: NetworkCounts,
    status: u32,
    device_features_half: u32,
    driver_features_half: u32,
    driver_features: u64,
    selected: usize,
    queues: [Queue; 2],
    /// Whether the guest is asked for notifications: not while its ring is looked at
    /// anyway.
    wants_notifications: bool,
}

impl Default for NetworkCard {
    /// As after a reset.
    fn default() -> Self {
        let queue = || Queue::new(QUEUE_MAX).expect("a power of two");
        Self {
            counts: NetworkCounts::default(),
            status: 0,
            device_features_half: 0,
            driver_features_half: 0,
            driver_features: 0,
            selected: 0,
            queues: [queue(), queue()],
            wants_notifications: true,
        }
    }
}

impl NetworkCard {
    /// Asks the guest for notifications of what it sends, or not to make any.
    pub const fn want_notifications(&mut self, wanted: bool) {
        self.wants_notifications = wanted;
    }

    /// Whether the guest's driver has set it up, and nothing failed since.
    pub const fn is_ready(&self) -> bool {
        let needed = VIRTIO_CONFIG_S_DRIVER_OK;
        self.status & needed == needed && self.status & VIRTIO_CONFIG_S_NEEDS_RESET == 0
    }

    /// A read at this offset. Registers have 32 bits each; other accesses read as zeroes.
    pub fn read(&self, offset: u64, data: &mut [u8]) {
        data.fill(0);
        if let Ok(word) = <&mut [u8; 4]>::try_from(data) {
            *word = self.register(offset).to_le_bytes();
        }
    }

    fn register(&self, offset: u64) -> u32 {
        let queue = self.queues.get(self.selected);
        match u32::try_from(offset).unwrap_or(u32::MAX) {
            mmio::VIRTIO_MMIO_MAGIC_VALUE => u32::from_le_bytes(*b"virt"),
            mmio::VIRTIO_MMIO_VERSION => 2,
            mmio::VIRTIO_MMIO_DEVICE_ID => VIRTIO_ID_NET,
            mmio::VIRTIO_MMIO_VENDOR_ID => VENDOR,
            mmio::VIRTIO_MMIO_DEVICE_FEATURES => match self.device_features_half {
                0 => FEATURES as u32,
                1 => (FEATURES >> 32) as u32,
                _ => 0,
            },
            mmio::VIRTIO_MMIO_QUEUE_NUM_MAX => queue.map_or(0, |_| QUEUE_MAX.into()),
            mmio::VIRTIO_MMIO_QUEUE_READY => queue.map_or(0, |queue| queue.ready().into()),
            mmio::VIRTIO_MMIO_STATUS => self.status,
            // There is no interrupt but a message for each used buffer.
            mmio::VIRTIO_MMIO_INTERRUPT_STATUS => mmio::VIRTIO_MMIO_INT_VRING,
            _ => 0,
        }
    }

    /// A write at this offset. Of QueueNotify the caller takes care.
    pub fn write(&mut self, offset: u64, data: &[u8]) {
        let Ok(word) = <[u8; 4]>::try_from(data) else { return };
        let (value, offset) = (u32::from_le_bytes(word), u32::try_from(offset).unwrap_or(u32::MAX));
        match offset {
            mmio::VIRTIO_MMIO_DEVICE_FEATURES_SEL => self.device_features_half = value,
            mmio::VIRTIO_MMIO_DRIVER_FEATURES_SEL => self.driver_features_half = value,
            mmio::VIRTIO_MMIO_DRIVER_FEATURES if !self.has(VIRTIO_CONFIG_S_FEATURES_OK) => {
                let (keep, shift) = match self.driver_features_half {
                    0 => (!u64::from(u32::MAX), 0),
                    1 => (u32::MAX.into(), 32),
                    _ => return,
                };
                self.driver_features = self.driver_features & keep | u64::from(value) << shift;
            }
            mmio::VIRTIO_MMIO_QUEUE_SEL => self.selected = value as usize,
            mmio::VIRTIO_MMIO_STATUS => self.write_status(value),
            _ => self.write_queue(offset, value),
        }
    }

    const fn has(&self, status: u32) -> bool {
        self.status & status != 0
    }

    fn write_status(&mut self, value: u32) {
        if value == 0 {
            let Self { counts, wants_notifications, .. } = *self;
            *self = Self { counts, wants_notifications, ..Self::default() };
            return;
        }
        let is_offered = self.driver_features & !FEATURES == 0
            && self.driver_features & 1 << VIRTIO_F_VERSION_1 != 0;
        // A driver takes back no bit, and sets not this one.
        let mut set = value & !VIRTIO_CONFIG_S_NEEDS_RESET;
        if !is_offered {
            set &= !VIRTIO_CONFIG_S_FEATURES_OK;
        }
        if (self.status | set) & VIRTIO_CONFIG_S_FEATURES_OK == 0 {
            set &= !VIRTIO_CONFIG_S_DRIVER_OK;
        }
        self.status |= set;
        if self.has(VIRTIO_CONFIG_S_FEATURES_OK) {
            let event_index = self.driver_features & 1 << VIRTIO_RING_F_EVENT_IDX != 0;
            self.queues.iter_mut().for_each(|queue| queue.set_event_idx(event_index));
        }
    }

    /// What belongs to a queue stands once the driver is ready.
    fn write_queue(&mut self, offset: u32, value: u32) {
        if self.has(VIRTIO_CONFIG_S_DRIVER_OK) {
            return;
        }
        let Some(queue) = self.queues.get_mut(self.selected) else { return };
        let half = Some(value);
        match offset {
            // Sizes that no queue has are not taken.
            mmio::VIRTIO_MMIO_QUEUE_NUM => {
                queue.set_size(u16::try_from(value).unwrap_or(0));
            }
            mmio::VIRTIO_MMIO_QUEUE_READY => queue.set_ready(value == 1),
            mmio::VIRTIO_MMIO_QUEUE_DESC_LOW => queue.set_desc_table_address(half, None),
            mmio::VIRTIO_MMIO_QUEUE_DESC_HIGH => queue.set_desc_table_address(None, half),
            mmio::VIRTIO_MMIO_QUEUE_AVAIL_LOW => queue.set_avail_ring_address(half, None),
            mmio::VIRTIO_MMIO_QUEUE_AVAIL_HIGH => queue.set_avail_ring_address(None, half),
            mmio::VIRTIO_MMIO_QUEUE_USED_LOW => queue.set_used_ring_address(half, None),
            mmio::VIRTIO_MMIO_QUEUE_USED_HIGH => queue.set_used_ring_address(None, half),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
