//! Requests to the guest, and its replies.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use guest::discovery::Discovery;
use guest::protocol::{Flooded, RECORDS, Words};
use guest::request::GuestRequest;

use super::Machine;
use crate::barrier::NAP;
use crate::error::MachineError;
use crate::reply;
use crate::vcpu::Control;

/// How long to poll for a reply before the thread sleeps.
const SPIN: Duration = Duration::from_micros(300);

impl Machine {
    /// The clocks that a vCPU found at its start.
    ///
    /// # Errors
    /// As [`Machine::request`].
    pub fn discover(&self, vcpu: usize) -> Result<Discovery, MachineError> {
        reply::decode_discovery(vcpu, self.request(vcpu, GuestRequest::Discover)?)
    }

    /// Sends a request to the guest, and waits for the reply.
    ///
    /// # Errors
    /// The guest failed, or its reply is late, negative or invalid.
    pub fn request(&self, vcpu: usize, request: GuestRequest) -> Result<Words, MachineError> {
        self.send_request(vcpu, request)?;
        self.wait_for_reply(vcpu, request)
    }

    /// Sends a request to the guest without waiting; each vCPU has at most one
    /// pending.
    ///
    /// # Errors
    /// The guest failed, or the previous request is still pending.
    pub fn send_request(&self, vcpu: usize, request: GuestRequest) -> Result<(), MachineError> {
        let handle = &self.vcpus[vcpu];
        if self.shared.shared().vcpu(vcpu).reply.number()
            != handle.last_request.load(Ordering::Relaxed)
        {
            return Err(match handle.status.guest_fault() {
                Some(guest_fault) => MachineError::GuestFailed { vcpu, guest_fault },
                None => MachineError::RequestPending { vcpu, request: format!("{request:?}") },
            });
        }
        let number = handle.last_request.fetch_add(1, Ordering::Relaxed) + 1;
        let (code, words) = request.encode();
        self.shared.shared().vcpu(vcpu).request.post(number, code, &words);
        std::sync::atomic::fence(Ordering::SeqCst);
        if handle.status.idle.swap(false, Ordering::SeqCst) {
            let _ = handle.status.send(&handle.control, Control::Wake);
        }
        Ok(())
    }

    /// Waits for the reply to the request that was sent last.
    ///
    /// # Errors
    /// As [`Machine::request`].
    pub fn wait_for_reply(
        &self,
        vcpu: usize,
        request: GuestRequest,
    ) -> Result<Words, MachineError> {
        let handle = &self.vcpus[vcpu];
        let reply = &self.shared.shared().vcpu(vcpu).reply;
        let number = handle.last_request.load(Ordering::Relaxed);
        let sent = Instant::now();
        while reply.number() != number {
            if let Some(guest_fault) = handle.status.guest_fault() {
                return Err(MachineError::GuestFailed { vcpu, guest_fault });
            }
            let waited = sent.elapsed();
            if waited > self.settings.timeout {
                return Err(MachineError::TimedOut { vcpu, limit: self.settings.timeout });
            }
            if waited < SPIN {
                std::hint::spin_loop();
            } else {
                std::thread::sleep(NAP);
            }
        }
        let (code, words) = reply.read();
        reply::decode(vcpu, request, code, words)
    }

    /// The records in a vCPU's ring, oldest first.
    ///
    /// # Errors
    /// [`MachineError::Flooded`].
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
