//! The thread behind the network card: it takes what the guest sends, and, after a known
//! delay, has it what the host on the other side replies.
//!
//! A notification is a write that KVM catches (KVM_IOEVENTFD): the vCPU goes on and the
//! thread wakes up. An interrupt is a message that KVM delivers (KVM_IRQFD), to a vCPU
//! that sleeps or runs. So neither brings the vCPU out to its process.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use guest::layout::{NETWORK_MEMORY, NETWORK_REGISTERS};
use guest::network::rings::Area;
use vm_memory::{GuestAddress, GuestMemoryMmap};
use vmm_sys_util::eventfd::EventFd;

use crate::devices::network::{BYTES, NetworkCard, echo};
use crate::error::MachineError;

/// Of registers, QueueNotify.
pub(crate) const NOTIFY: u64 = NETWORK_REGISTERS + 0x50;

/// Replies that are due later; more are dropped, as by any queue of a network.
const PENDING_MAX: usize = 256;

/// What the card has done so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NetworkCounts {
    /// Frames taken from the guest.
    pub sent: u64,
    /// Frames given to it.
    pub received: u64,
    /// Frames dropped.
    pub dropped: u64,
    /// Frames copied, there and back.
    pub copies: u64,
    /// Bytes copied.
    pub bytes: u64,
}

/// The card and its lines to the guest.
#[derive(Debug)]
pub(crate) struct NetworkLink {
    device: Mutex<NetworkCard>,
    memory: GuestMemoryMmap,
    pub(crate) notified: EventFd,
    pub(crate) interrupt: EventFd,
    /// KVM_HC_VAPIC_POLL_IRQ, which asks for no more than to leave the guest: KVM counts
    /// it here, and nobody reads that.
    pub(crate) left: EventFd,
    delay: Duration,
    polls: AtomicBool,
    ended: AtomicBool,
    counts: [AtomicU64; 5],
}

impl NetworkLink {
    /// The memory is the card's own: it reaches no other.
    pub(crate) fn new(delay: Duration) -> Result<Self, MachineError> {
        let size = size_of::<Area>();
        let memory =
            GuestMemoryMmap::from_ranges(&[(GuestAddress(NETWORK_MEMORY), size)]).map_err(
                |error| MachineError::Memory { size: size as u64, error: error.to_string() },
            )?;
        let event = || EventFd::new(0);
        let failed =
            |error: std::io::Error| MachineError::Kvm { call: "eventfd", error: error.into() };
        Ok(Self {
            device: Mutex::default(),
            memory,
            notified: event().map_err(failed)?,
            interrupt: event().map_err(failed)?,
            left: event().map_err(failed)?,
            delay,
            polls: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            counts: Default::default(),
        })
    }

    pub(crate) fn memory(&self) -> &GuestMemoryMmap {
        &self.memory
    }

    /// A thread that panicked leaves valid state: each call is one step.
    fn device(&self) -> MutexGuard<'_, NetworkCard> {
        self.device.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn offset(address: u64) -> Option<u64> {
        address.checked_sub(NETWORK_REGISTERS).filter(|offset| *offset < BYTES)
    }

    /// A read of a register; whether it is one.
    pub(crate) fn read(&self, address: u64, data: &mut [u8]) -> bool {
        Self::offset(address).map(|offset| self.device().read(offset, data)).is_some()
    }

    /// The same, written. KVM catches notifications of the right size.
    pub(crate) fn write(&self, address: u64, data: &[u8]) -> bool {
        Self::offset(address).map(|offset| self.device().write(offset, data)).is_some()
    }

    /// Whether the thread looks at the guest's ring all the time.
    pub(crate) fn set_polling(&self, polls: bool) {
        self.polls.store(polls, Ordering::Relaxed);
        self.device().want_notifications(!polls);
        self.wake();
    }

    pub(crate) fn counts(&self) -> NetworkCounts {
        let [sent, received, dropped, copies, bytes] =
            self.counts.each_ref().map(|count| count.load(Ordering::Relaxed));
        NetworkCounts { sent, received, dropped, copies, bytes }
    }

    fn count(&self, amounts: [u64; 5]) {
        for (count, amount) in self.counts.iter().zip(amounts) {
            count.fetch_add(amount, Ordering::Relaxed);
        }
    }

    fn wake(&self) {
        // Full only while it wakes up anyway.
        let _ = self.notified.write(1);
    }

    /// Until it is ended.
    fn run(&self) {
        let mut pending: VecDeque<(Instant, Vec<u8>)> = VecDeque::new();
        while !self.ended.load(Ordering::Relaxed) {
            let polls = self.polls.load(Ordering::Relaxed);
            if !polls && pending.is_empty() {
                // Until the guest notifies it, or this process wakes it.
                let _ = self.notified.read();
            }
            self.take(&mut pending);
            // A delay is waited out awake: a sleep is as late as what is measured.
            while !polls && pending.front().is_some_and(|(due, _)| Instant::now() < *due) {
                std::hint::spin_loop();
            }
            self.give(&mut pending);
            if polls {
                // The lock is free for a while, for a vCPU that waits for it.
                (0..16).for_each(|_| std::hint::spin_loop());
            }
        }
    }

    fn take(&self, pending: &mut VecDeque<(Instant, Vec<u8>)>) {
        let mut dropped = 0;
        let due = Instant::now() + self.delay;
        let passed = self.device().sent(&self.memory, |frame| match echo::reply(frame) {
            Some(reply) if pending.len() < PENDING_MAX => pending.push_back((due, reply)),
            _ => dropped += 1,
        });
        if passed.frames + passed.dropped > 0 {
            let (frames, dropped) = (passed.frames, passed.dropped + dropped);
            self.count([frames, 0, dropped, frames, passed.bytes]);
        }
        self.interrupt(passed.interrupts);
    }

    fn give(&self, pending: &mut VecDeque<(Instant, Vec<u8>)>) {
        let now = Instant::now();
        let due = pending.iter().take_while(|(due, _)| *due <= now).count();
        if due == 0 {
            return;
        }
        let frames: Vec<_> = pending.drain(..due).collect();
        let frames = frames.iter().map(|(_, frame)| frame.as_slice());
        let passed = self.device().received(&self.memory, frames);
        self.count([0, passed.frames, passed.dropped, passed.frames, passed.bytes]);
        self.interrupt(passed.interrupts);
    }

    fn interrupt(&self, wanted: bool) {
        if wanted {
            let _ = self.interrupt.write(1);
        }
    }
}

/// The thread ends when this is dropped.
#[derive(Debug)]
pub(crate) struct NetworkThread {
    link: Arc<NetworkLink>,
    thread: Option<JoinHandle<()>>,
}

impl NetworkThread {
    /// Starts it, on this CPU of the host if one is given.
    pub(crate) fn start(link: &Arc<NetworkLink>, cpu: Option<u32>) -> Result<Self, MachineError> {
        let runs = Arc::clone(link);
        let thread = std::thread::Builder::new()
            .name("network".to_owned())
            .spawn(move || {
                // Where it cannot be bound, it runs where the kernel likes.
                let _bound = cpu.and_then(|cpu| linux::cpus::pin(cpu).ok());
                runs.run();
            })
            .map_err(MachineError::Thread)?;
        Ok(Self { link: Arc::clone(link), thread: Some(thread) })
    }
}

impl Drop for NetworkThread {
    fn drop(&mut self) {
        self.link.ended.store(true, Ordering::Relaxed);
        self.link.wake();
        if let Some(thread) = self.thread.take() {
            // One that panicked has printed its message.
            let _ = thread.join();
        }
    }
}
