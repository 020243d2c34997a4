//! A driver of one virtio-net device that pings its peer, in several ways of waiting
//! for the reply: what each costs is `parachron lab network`.
//!
//! The transport is virtio-mmio's registers (virtio 1.2, 4.2), with one difference: the
//! interrupt is a message, an edge of a vector of its own, as a PCI device's is. So a
//! driver neither reads InterruptStatus nor acknowledges it, which are two exits.

pub mod ping;
pub mod registers;
pub mod rings;

use pvclock::counter::Counter;

use crate::hardware::Hardware;
use crate::layout::{NETWORK_MEMORY, VAPIC_POLL_IRQ};
use crate::protocol::Words;
use crate::request::RequestOutcome;
use registers::Transport;
use rings::{Area, Queue, SIZE};

/// The most pings of one request: their times fit in its records.
pub const PINGS_MAX: usize = 384;

/// The most in flight: a descriptor is used again after its reply alone.
pub const IN_FLIGHT_MAX: u64 = 64;

/// How long each ping took, TSC cycles; the first is not counted: with it the device comes
/// to know its rings.
pub type Times = [u64; PINGS_MAX + 1];

/// An MSR that KVM passes to no guest: IA32_MISC_ENABLE.
const MISC_ENABLE: u32 = 0x1a0;

numbered! {
    /// How a guest waits for a reply.
    pub enum Wait {
        /// Halted, until an interrupt comes.
        Halt,
        /// In a loop that does not leave the guest, until an interrupt comes.
        Busy,
        /// In a loop of RDMSR, each a call of CPL 0 and an exit, until an interrupt comes.
        ReadMsr,
        /// The same with KVM_HC_VAPIC_POLL_IRQ, which is there for it: here a port that KVM
        /// answers itself.
        Hypercall,
        /// Looking at the ring, without interrupts.
        Poll,
    }
}

/// What to send, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flow {
    /// How to wait.
    pub wait: Wait,
    /// Whether notifications and interrupts are suppressed by event index.
    pub event_index: bool,
    /// Pings, at most [`PINGS_MAX`].
    pub pings: u64,
    /// How many may be without a reply, at most [`IN_FLIGHT_MAX`].
    pub in_flight: u64,
    /// How many are sent before the device is notified.
    pub batch: u64,
}

impl Flow {
    fn is_possible(&self) -> bool {
        (1..=PINGS_MAX as u64).contains(&self.pings)
            && (1..=IN_FLIGHT_MAX).contains(&self.in_flight)
            && (1..=self.in_flight).contains(&self.batch)
    }
}

/// What the driver counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PacketCount {
    /// Whole replies.
    pub replies: u64,
    /// Frames that were none.
    pub strange: u64,
    /// Notifications: writes to the device's register.
    pub notifications: u64,
    /// Interrupts, each with its end of interrupt, a write to the local APIC.
    pub interrupts: u64,
    /// HLT, RDMSR or hypercalls, by the way of waiting.
    pub exits: u64,
    /// From the first request to the last reply, TSC cycles.
    pub cycles: u64,
}

impl PacketCount {
    /// As a reply's words.
    pub const fn encode(&self) -> Words {
        let Self { replies, strange, notifications, interrupts, exits, cycles } = *self;
        [replies, strange, notifications, interrupts, exits, cycles]
    }

    /// From a reply's words.
    pub const fn decode(words: &Words) -> Self {
        let [replies, strange, notifications, interrupts, exits, cycles] = *words;
        Self { replies, strange, notifications, interrupts, exits, cycles }
    }
}

struct Driver<'a, H> {
    hardware: &'a H,
    area: &'a Area,
    flow: Flow,
    counted: PacketCount,
    sent: u16,
    /// Sent and published.
    published: u16,
    received: u16,
    /// Sequence numbers end before this.
    until: u16,
    sent_at: [u64; SIZE],
}

/// Sends the pings, and one before them, and writes to `took` how long they took.
///
/// # Errors
/// [`RequestOutcome::NotUnderstood`] for more than there is room for, or `NoDevice`.
pub fn run<H: Hardware>(
    hardware: &H,
    flow: Flow,
    took: &mut Times,
) -> Result<PacketCount, RequestOutcome> {
    if !flow.is_possible() {
        return Err(RequestOutcome::NotUnderstood);
    }
    let area = hardware.network();
    let transport = Transport { hardware };
    transport.begin(flow.event_index)?;
    let receive_at = NETWORK_MEMORY + core::mem::offset_of!(Area, receive) as u64;
    let send_at = NETWORK_MEMORY + core::mem::offset_of!(Area, send) as u64;
    area.receive.reset(receive_at, true);
    area.send.reset(send_at, false);
    for (number, at) in [(0, receive_at), (1, send_at)] {
        transport.set_queue(number, Queue::addresses(at))?;
    }
    area.receive.want_interrupts(flow.wait != Wait::Poll);
    area.send.want_interrupts(false);
    // Indices that the device never passes: a queue's are 16 bits.
    area.send.interrupt_at(u16::MAX);
    transport.enable_interrupts()?;
    transport.ready();
    let mut driver = Driver {
        hardware,
        area,
        flow,
        counted: PacketCount::default(),
        sent: 0,
        published: 0,
        received: 0,
        until: 1,
        sent_at: [0; SIZE],
    };
    let counted = driver.ping(took);
    transport.reset();
    Ok(counted)
}

impl<H: Hardware> Driver<'_, H> {
    fn ping(&mut self, took: &mut Times) -> PacketCount {
        let Self { hardware, area, flow, .. } = *self;
        for descriptor in 0..SIZE {
            area.receive.offer(descriptor as u16, descriptor);
        }
        if area.receive.publish(0, SIZE as u16, flow.event_index) {
            Transport { hardware }.notify(0);
        }
        let runs_interruptible = !matches!(flow.wait, Wait::Halt | Wait::Poll);
        hardware.interruptible(runs_interruptible);
        self.exchange(took);
        self.counted = PacketCount::default();
        self.until = 1 + flow.pings as u16;
        let interrupts = hardware.interrupts();
        let began = hardware.counter().read_ordered();
        self.exchange(took);
        self.counted.cycles = hardware.counter().read_ordered() - began;
        self.counted.interrupts = hardware.interrupts() - interrupts;
        if runs_interruptible {
            hardware.interruptible(false);
        }
        self.counted
    }

    /// Sends what is to be sent, until as many frames have come.
    fn exchange(&mut self, took: &mut Times) {
        while self.received < self.until {
            let batch = self.batch();
            if batch > 0 && self.room() >= batch {
                self.send(batch);
            }
            let seen = self.hardware.interrupts();
            if !self.receive(took) && (self.batch() == 0 || self.room() < self.batch()) {
                self.wait(seen);
            }
        }
    }

    /// How many are sent next.
    fn batch(&self) -> u16 {
        (self.flow.batch as u16).min(self.until - self.sent)
    }

    /// How many more may be without a reply.
    fn room(&self) -> u16 {
        let in_flight = self.sent.saturating_sub(self.received);
        (self.flow.in_flight as u16).saturating_sub(in_flight)
    }

    fn send(&mut self, batch: u16) {
        let queue = &self.area.send;
        for _ in 0..batch {
            let descriptor = usize::from(self.sent) % SIZE;
            self.sent_at[descriptor] = self.hardware.counter().read_ordered();
            queue.fill(descriptor, &ping::request(self.sent));
            queue.offer(self.sent, descriptor);
            self.sent += 1;
        }
        if queue.publish(self.published, self.sent, self.flow.event_index) {
            self.counted.notifications += 1;
            Transport { hardware: self.hardware }.notify(1);
        }
        self.published = self.sent;
    }

    /// Takes all replies that are there, and whether there were any.
    fn receive(&mut self, took: &mut Times) -> bool {
        let queue = &self.area.receive;
        let mut any = false;
        loop {
            let used = queue.used();
            if used == self.received {
                if !any || !self.flow.event_index {
                    return any;
                }
                // What came before the device saw this makes no interrupt.
                queue.interrupt_at(self.received);
                if queue.used() == self.received {
                    return true;
                }
                continue;
            }
            let offered = self.received.wrapping_add(SIZE as u16);
            while self.received != used {
                any = true;
                let (descriptor, bytes, length) = queue.read(self.received);
                let now = self.hardware.counter().read_ordered();
                match ping::reply(&bytes[..length]).filter(|sequence| *sequence < self.sent) {
                    Some(sequence) => {
                        self.counted.replies += 1;
                        let sent_at = self.sent_at[usize::from(sequence) % SIZE];
                        if let Some(place) = took.get_mut(usize::from(self.received)) {
                            *place = now.wrapping_sub(sent_at);
                        }
                    }
                    None => self.counted.strange += 1,
                }
                queue.offer(self.received.wrapping_add(SIZE as u16), descriptor);
                self.received += 1;
            }
            let new = self.received.wrapping_add(SIZE as u16);
            if queue.publish(offered, new, self.flow.event_index) {
                Transport { hardware: self.hardware }.notify(0);
            }
        }
    }

    /// Until an interrupt comes that was not `seen`, or a reply where none comes.
    fn wait(&mut self, seen: u64) {
        let hardware = self.hardware;
        match self.flow.wait {
            Wait::Halt => {
                self.counted.exits += 1;
                hardware.halt();
            }
            Wait::Busy => {
                while hardware.interrupts() == seen {
                    hardware.pause();
                }
            }
            Wait::ReadMsr => {
                while hardware.interrupts() == seen {
                    self.counted.exits += 1;
                    // Which it is, and whether it is there, is no matter.
                    let _ = hardware.read_msr(MISC_ENABLE);
                }
            }
            Wait::Hypercall => {
                while hardware.interrupts() == seen {
                    self.counted.exits += 1;
                    hardware.port_write_8(VAPIC_POLL_IRQ, 0);
                }
            }
            Wait::Poll => {
                while self.area.receive.used() == self.received {
                    hardware.pause();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_counted_comes_back_from_its_words() {
        let counted = PacketCount {
            replies: 1,
            strange: 2,
            notifications: 3,
            interrupts: 4,
            exits: 5,
            cycles: 6,
        };
        assert_eq!(PacketCount::decode(&counted.encode()), counted);
    }

    #[test]
    fn a_flow_has_room() {
        let flow = Flow { wait: Wait::Halt, event_index: true, pings: 1, in_flight: 1, batch: 1 };
        assert!(flow.is_possible());
        let most = PINGS_MAX as u64;
        for (pings, in_flight, batch, possible) in [
            (most, IN_FLIGHT_MAX, IN_FLIGHT_MAX, true),
            (most + 1, 1, 1, false),
            (0, 1, 1, false),
            (1, IN_FLIGHT_MAX + 1, 1, false),
            (1, 0, 0, false),
            (1, 2, 3, false),
            (1, 2, 0, false),
        ] {
            let flow = Flow { pings, in_flight, batch, ..flow };
            assert_eq!(flow.is_possible(), possible, "{flow:?}");
        }
    }
}
