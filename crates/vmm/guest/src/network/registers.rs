//! The registers of a virtio-mmio device (virtio 1.2, 4.2.2), and how a driver sets it up
//! (3.1.1).

use super::rings::SIZE;
use crate::hardware::Hardware;
use crate::layout::{NETWORK_REGISTERS, NETWORK_VECTOR};
use crate::request::RequestOutcome;
use crate::x2apic::{ENABLED, SPURIOUS};

const MAGIC: u64 = 0x000;
const VERSION: u64 = 0x004;
const DEVICE: u64 = 0x008;
const DEVICE_FEATURES: u64 = 0x010;
const DEVICE_FEATURES_SELECT: u64 = 0x014;
const DRIVER_FEATURES: u64 = 0x020;
const DRIVER_FEATURES_SELECT: u64 = 0x024;
const QUEUE_SELECT: u64 = 0x030;
const QUEUE_SIZE_MAX: u64 = 0x034;
const QUEUE_SIZE: u64 = 0x038;
const QUEUE_READY: u64 = 0x044;
/// Written with a queue's number.
const NOTIFY: u64 = 0x050;
const STATUS: u64 = 0x070;
/// Low halves of descriptors, available and used ring; the high ones follow each.
const QUEUE_PARTS: [u64; 3] = [0x080, 0x090, 0x0a0];

const NETWORK_CARD: u32 = 1;
const ACKNOWLEDGE: u32 = 1;
const DRIVER: u32 = 2;
const DRIVER_OK: u32 = 4;
const FEATURES_OK: u32 = 8;

/// VIRTIO_F_EVENT_IDX, in the lower half.
const EVENT_INDEX: u32 = 1 << 29;
/// VIRTIO_F_VERSION_1, in the upper half.
const VERSION_1: u32 = 1;

// The image has gates for 48 vectors.
const _: () = assert!(NETWORK_VECTOR >= 32 && NETWORK_VECTOR < 48);

/// The device's registers.
#[derive(Debug)]
pub(super) struct Transport<'a, H> {
    pub(super) hardware: &'a H,
}

impl<H: Hardware> Transport<'_, H> {
    fn read(&self, register: u64) -> u32 {
        self.hardware.mmio_read_32(NETWORK_REGISTERS + register)
    }

    #[inline]
    fn write(&self, register: u64, value: u32) {
        self.hardware.mmio_write_32(NETWORK_REGISTERS + register, value);
    }

    /// Resets it, and agrees on features.
    pub(super) fn begin(&self, event_index: bool) -> Result<(), RequestOutcome> {
        let found = [MAGIC, VERSION, DEVICE].map(|register| self.read(register));
        if found != [u32::from_le_bytes(*b"virt"), 2, NETWORK_CARD] {
            return Err(RequestOutcome::NoDevice);
        }
        self.reset();
        self.write(STATUS, ACKNOWLEDGE);
        self.write(STATUS, ACKNOWLEDGE | DRIVER);
        let event_index = if event_index { EVENT_INDEX } else { 0 };
        for (half, wanted) in [(0, event_index), (1, VERSION_1)] {
            self.write(DEVICE_FEATURES_SELECT, half);
            if self.read(DEVICE_FEATURES) & wanted != wanted {
                return Err(RequestOutcome::NoDevice);
            }
            self.write(DRIVER_FEATURES_SELECT, half);
            self.write(DRIVER_FEATURES, wanted);
        }
        self.write(STATUS, ACKNOWLEDGE | DRIVER | FEATURES_OK);
        let is_taken = self.read(STATUS) & FEATURES_OK != 0;
        if is_taken { Ok(()) } else { Err(RequestOutcome::NoDevice) }
    }

    /// A queue's place.
    pub(super) fn set_queue(&self, number: u32, parts: [u64; 3]) -> Result<(), RequestOutcome> {
        self.write(QUEUE_SELECT, number);
        if self.read(QUEUE_SIZE_MAX) < SIZE as u32 {
            return Err(RequestOutcome::NoDevice);
        }
        self.write(QUEUE_SIZE, SIZE as u32);
        for (register, address) in QUEUE_PARTS.into_iter().zip(parts) {
            self.write(register, address as u32);
            self.write(register + 4, (address >> 32) as u32);
        }
        self.write(QUEUE_READY, 1);
        Ok(())
    }

    /// Lets messages reach this vCPU.
    pub(super) fn enable_interrupts(&self) -> Result<(), RequestOutcome> {
        self.hardware.write_msr(SPURIOUS, ENABLED).map_err(|_| RequestOutcome::NoDevice)
    }

    pub(super) fn ready(&self) {
        self.write(STATUS, ACKNOWLEDGE | DRIVER | FEATURES_OK | DRIVER_OK);
    }

    pub(super) fn reset(&self) {
        self.write(STATUS, 0);
    }

    #[inline]
    pub(super) fn notify(&self, queue: u32) {
        self.write(NOTIFY, queue);
    }
}
