//! Requests to the guest, and its replies.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use guest::discovery::Found;
use guest::protocol::{Flooded, RECORDS, Words};
use guest::request::{Outcome, Request};

use super::Machine;
use crate::barrier::NAP;
use crate::error::MachineError;
use crate::vcpu::Control;

/// How long to poll for a reply before the thread sleeps.
const SPIN: Duration = Duration::from_micros(300);

impl Machine {
    /// The clocks that a vCPU found at its start.
    ///
    /// # Errors
    /// As [`Machine::ask`].
    pub fn discover(&self, vcpu: usize) -> Result<Found, MachineError> {
        let words = self.ask(vcpu, Request::Discover)?;
        Found::decode(&words).ok_or_else(|| MachineError::Nonsense {
            vcpu,
            asked: format!("{:?}", Request::Discover),
            code: Outcome::Done.number(),
            words,
        })
    }

    /// Sends a request to the guest, and waits for the reply.
    ///
    /// # Errors
    /// The guest failed, or its reply is late, negative or invalid.
    ///
    /// # Panics
    /// There is no such vCPU.
    pub fn ask(&self, vcpu: usize, request: Request) -> Result<Words, MachineError> {
        self.post(vcpu, request)?;
        self.answer(vcpu, request)
    }

    /// Sends a request to the guest without waiting; each vCPU has at most one
    /// pending.
    ///
    /// # Errors
    /// The guest failed, or the previous request is still pending.
    ///
    /// # Panics
    /// There is no such vCPU.
    pub fn post(&self, vcpu: usize, request: Request) -> Result<(), MachineError> {
        let handle = &self.vcpus[vcpu];
        if self.shared.shared().vcpu(vcpu).reply.number() != handle.asked.load(Ordering::Relaxed) {
            return Err(match handle.status.guest_fault() {
                Some(guest_fault) => MachineError::Died { vcpu, guest_fault },
                None => MachineError::Unanswered { vcpu, asked: format!("{request:?}") },
            });
        }
        let number = handle.asked.fetch_add(1, Ordering::Relaxed) + 1;
        let (code, words) = request.encode();
        self.shared.shared().vcpu(vcpu).request.post(number, code, &words);
        std::sync::atomic::fence(Ordering::SeqCst);
        if handle.status.idle.swap(false, Ordering::SeqCst) {
            let _ = handle.control.send(Control::Wake);
        }
        Ok(())
    }

    /// Waits for the reply to the request that was posted last.
    ///
    /// # Errors
    /// As [`Machine::ask`].
    ///
    /// # Panics
    /// There is no such vCPU.
    pub fn answer(&self, vcpu: usize, request: Request) -> Result<Words, MachineError> {
        let handle = &self.vcpus[vcpu];
        let reply = &self.shared.shared().vcpu(vcpu).reply;
        let number = handle.asked.load(Ordering::Relaxed);
        let asked_at = Instant::now();
        while reply.number() != number {
            if let Some(guest_fault) = handle.status.guest_fault() {
                return Err(MachineError::Died { vcpu, guest_fault });
            }
            let waited = asked_at.elapsed();
            if waited > self.settings.patience {
                return Err(MachineError::TimedOut { vcpu, limit: self.settings.patience });
            }
            if waited < SPIN {
                std::hint::spin_loop();
            } else {
                std::thread::sleep(NAP);
            }
        }
        let (code, words) = reply.read();
        let asked = || format!("{request:?}");
        match Outcome::from_number(code) {
            Some(Outcome::Done) => Ok(words),
            Some(outcome) => Err(MachineError::Declined { vcpu, asked: asked(), outcome }),
            None => Err(MachineError::Nonsense { vcpu, asked: asked(), code, words }),
        }
    }

    /// The records in a vCPU's ring, oldest first.
    ///
    /// # Errors
    /// [`MachineError::Flooded`].
    ///
    /// # Panics
    /// There is no such vCPU.
    pub fn records(&self, vcpu: usize) -> Result<Vec<Words>, MachineError> {
        let handle = &self.vcpus[vcpu];
        let ring = &self.shared.shared().vcpu(vcpu).ring;
        let mut tail = handle.tail.load(Ordering::Relaxed);
        let mut records = Vec::new();
        let taken = loop {
            match ring.pop(&mut tail) {
                Ok(Some((_, words))) => records.push(words),
                Ok(None) => break Ok(records),
                Err(Flooded { head, tail }) => {
                    break Err(MachineError::Flooded { vcpu, head, tail, room: RECORDS });
                }
            }
        };
        handle.tail.store(tail, Ordering::Relaxed);
        taken
    }
}
