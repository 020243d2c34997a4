//! The thread behind the network card: it takes what the guest sends, and, after a known
//! delay, has it what the host on the other side replies.
//!
//! A notification is a write that KVM catches (KVM_IOEVENTFD): the vCPU goes on and the
//! thread wakes up. An interrupt is a message that KVM delivers (KVM_IRQFD), to a vCPU
//! that sleeps or runs. So neither brings the vCPU out to its process.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use guest::layout::{NETWORK_MEMORY, NETWORK_REGISTERS, NETWORK_VECTOR, VAPIC_POLL_IRQ};
use guest::network::rings::Area;
use kvm_bindings::{
    KVM_CAP_HALT_POLL, KVM_IRQ_ROUTING_MSI, KvmIrqRouting, kvm_enable_cap, kvm_irq_routing_entry,
};
use kvm_ioctls::{IoEventAddress, NoDatamatch, VmFd};
use vm_memory::{GuestAddress, GuestMemoryMmap};
use vmm_sys_util::eventfd::EventFd;

use crate::Machine;
use crate::devices::network::{BYTES, NetworkCard, NetworkCounts, echo};
use crate::error::MachineError;
use crate::handover::Background;
use crate::kvm;
use crate::settings::Settings;

/// The line whose message its interrupt is, beyond those of the I/O interrupt controller.
const LINE: u32 = 24;

/// A message to the local APIC of number 0 (Intel SDM volume 3, 12.11).
const MESSAGE: u32 = 0xfee0_0000;

/// Of registers, QueueNotify.
const NOTIFY: u64 = NETWORK_REGISTERS + 0x50;

/// Replies that are due later; more are dropped, as by any queue of a network.
const PENDING_MAX: usize = 256;

/// The card and its lines to the guest.
#[derive(Debug)]
pub(crate) struct NetworkLink {
    device: Mutex<NetworkCard>,
    memory: GuestMemoryMmap,
    notified: EventFd,
    interrupt: EventFd,
    /// KVM_HC_VAPIC_POLL_IRQ, which asks for no more than to leave the guest: KVM counts
    /// it here, and nobody reads that.
    left: EventFd,
    delay: Duration,
    polls: AtomicBool,
    ended: AtomicBool,
}

impl NetworkLink {
    /// A card, its memory and its lines to the guest.
    pub(crate) fn add(vm: &VmFd, delay: Duration) -> Result<Arc<Self>, MachineError> {
        let link = Arc::new(Self::new(delay)?);
        kvm::set_memory(vm, 1, &link.memory)?;
        for (event, at) in [
            (&link.notified, IoEventAddress::Mmio(NOTIFY)),
            (&link.left, IoEventAddress::Pio(VAPIC_POLL_IRQ.into())),
        ] {
            let registered = vm.register_ioevent(event, &at, NoDatamatch);
            registered.map_err(MachineError::kvm("KVM_IOEVENTFD"))?;
        }
        let mut entry =
            kvm_irq_routing_entry { gsi: LINE, type_: KVM_IRQ_ROUTING_MSI, ..Default::default() };
        entry.u.msi.address_lo = MESSAGE;
        entry.u.msi.data = NETWORK_VECTOR.into();
        let routing = KvmIrqRouting::from_entries(&[entry])
            .map_err(|_| MachineError::Unsupported { what: "room for a route" })?;
        vm.set_gsi_routing(&routing).map_err(MachineError::kvm("KVM_SET_GSI_ROUTING"))?;
        vm.register_irqfd(&link.interrupt, LINE).map_err(MachineError::kvm("KVM_IRQFD"))?;
        Ok(link)
    }

    /// The memory is the card's own: it reaches no other.
    fn new(delay: Duration) -> Result<Self, MachineError> {
        let size = size_of::<Area>();
        let memory =
            GuestMemoryMmap::from_ranges(&[(GuestAddress(NETWORK_MEMORY), size)]).map_err(
                |error| MachineError::Memory { size: size as u64, error: error.to_string() },
            )?;
        let event = || {
            EventFd::new(0)
                .map_err(|error| MachineError::Kvm { call: "eventfd", error: error.into() })
        };
        Ok(Self {
            device: Mutex::default(),
            memory,
            notified: event()?,
            interrupt: event()?,
            left: event()?,
            delay,
            polls: AtomicBool::new(false),
            ended: AtomicBool::new(false),
        })
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
        let (due, mut dropped) = (Instant::now() + self.delay, 0);
        let mut card = self.device();
        let passed = card.sent(&self.memory, |frame| match echo::reply(frame) {
            Some(reply) if pending.len() < PENDING_MAX => pending.push_back((due, reply)),
            _ => dropped += 1,
        });
        card.counts.dropped += dropped;
        drop(card);
        self.interrupt(passed.interrupts);
    }

    fn give(&self, pending: &mut VecDeque<(Instant, Vec<u8>)>) {
        let now = Instant::now();
        let due = pending.iter().take_while(|(due, _)| *due <= now).count();
        if due > 0 {
            let frames: Vec<_> = pending.drain(..due).collect();
            let frames = frames.iter().map(|(_, frame)| frame.as_slice());
            let passed = self.device().received(&self.memory, frames);
            self.interrupt(passed.interrupts);
        }
    }

    fn interrupt(&self, wanted: bool) {
        if wanted {
            let _ = self.interrupt.write(1);
        }
    }
}

/// Its thread, on the CPU after the vCPUs'; where it cannot be bound, it runs where the
/// kernel likes.
pub(crate) fn start(
    link: &Arc<NetworkLink>,
    settings: &Settings,
) -> Result<Background, MachineError> {
    let (runs, ended, cpu) = (Arc::clone(link), Arc::clone(link), settings.cpu(settings.vcpus));
    let run = move || {
        let _bound = cpu.and_then(|cpu| linux::cpus::pin(cpu).ok());
        runs.run();
    };
    Background::start("network", run, move || {
        ended.ended.store(true, Ordering::Relaxed);
        ended.wake();
    })
}

impl Machine {
    /// What the network card has done so far; `None` where there is none.
    pub fn network(&self) -> Option<NetworkCounts> {
        self.shared.network.as_ref().map(|link| link.device().counts)
    }

    /// Whether the card looks at the guest's ring all the time, and asks for no
    /// notifications.
    pub fn poll_network(&self, polls: bool) {
        if let Some(link) = &self.shared.network {
            link.set_polling(polls);
        }
    }

    /// How long KVM looks for an interrupt of a vCPU that halts before its thread sleeps,
    /// at the most: ns.
    ///
    /// # Errors
    /// KVM's own: Linux before 5.11 has no such limit for each machine.
    pub fn set_halt_polling(&self, ns: u64) -> Result<(), MachineError> {
        let mut capability = kvm_enable_cap { cap: KVM_CAP_HALT_POLL, ..Default::default() };
        capability.args[0] = ns;
        self.vm.enable_cap(&capability).map_err(MachineError::kvm("KVM_CAP_HALT_POLL"))
    }
}
