//! Requests to the guest, and its replies.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use guest::discovery::Discovery;
use guest::protocol::{RECORDS, Words};
use guest::request::{GuestRequest, RequestOutcome};

use super::Machine;
use crate::error::MachineError;
use crate::handover::{Control, NAP};

/// How long to poll for a reply before the thread sleeps.
const SPIN: Duration = Duration::from_micros(300);

impl Machine {
    /// The clocks that a vCPU found at its start.
    ///
    /// # Errors
    /// As [`Machine::request`].
    pub fn discover(&self, vcpu: usize) -> Result<Discovery, MachineError> {
        let words = self.request(vcpu, GuestRequest::Discover)?;
        let (request, code) =
            (format!("{:?}", GuestRequest::Discover), RequestOutcome::Done.number());
        Discovery::decode(&words).ok_or(MachineError::InvalidReply { vcpu, request, code, words })
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
        let handle = self.handle(vcpu);
        if self.shared.shared().vcpu(vcpu).reply.number()
            != handle.last_request.load(Ordering::Relaxed)
        {
            return Err(match handle.guest_fault() {
                Some(guest_fault) => MachineError::GuestFailed { vcpu, guest_fault },
                None => MachineError::RequestPending { vcpu, request: format!("{request:?}") },
            });
        }
        let number = handle.last_request.fetch_add(1, Ordering::Relaxed) + 1;
        let (code, words) = request.encode();
        self.shared.shared().vcpu(vcpu).request.post(number, code, &words);
        std::sync::atomic::fence(Ordering::SeqCst);
        if handle.idle.swap(false, Ordering::SeqCst) {
            let _ = handle.send(Control::Wake);
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
        let handle = self.handle(vcpu);
        let reply = &self.shared.shared().vcpu(vcpu).reply;
        let number = handle.last_request.load(Ordering::Relaxed);
        let sent = Instant::now();
        while reply.number() != number {
            if let Some(guest_fault) = handle.guest_fault() {
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
        let request = format!("{request:?}");
        match RequestOutcome::from_number(code) {
            Some(RequestOutcome::Done) => Ok(words),
            Some(outcome) => Err(MachineError::Declined { vcpu, request, outcome }),
            None => Err(MachineError::InvalidReply { vcpu, request, code, words }),
        }
    }

    /// The records of a vCPU's last request, oldest first.
    ///
    /// # Errors
    /// [`MachineError::Flooded`].
    pub fn records(&self, vcpu: usize) -> Result<Vec<Words>, MachineError> {
        let records = &self.shared.shared().vcpu(vcpu).records;
        let written = records.count();
        if written > RECORDS as u64 {
            return Err(MachineError::Flooded { vcpu, written, room: RECORDS });
        }
        Ok(records.read(written).collect())
    }
}
