//! The guest's code, called through the mailbox as in a machine.

use guest::discovery::Found;
use guest::protocol::{SharedArea, Words};
use guest::request::{Outcome, Request};
use guest::serve::Guest;
use vmm::MachineError;

use super::board::Board;
use super::time::Time;
use crate::sample::VCPU;

/// A vCPU that runs only to reply to a request.
pub(crate) struct GuestCode<'b, T: Time> {
    guest: Guest<'b, Board<T>>,
    shared: &'b SharedArea,
    requests: u64,
    /// Records read from its ring.
    tail: u64,
}

impl<'b, T: Time> GuestCode<'b, T> {
    /// Starts it: it finds its clocks and registers its pages.
    pub(crate) fn start(board: &'b Board<T>) -> Self {
        let shared = board.ram.shared();
        Self { guest: Guest::start(board, shared, VCPU), shared, requests: 0, tail: 0 }
    }

    /// As [`vmm::Machine::ask`].
    pub(crate) fn request(&mut self, request: Request) -> Result<Words, MachineError> {
        let mailbox = self.shared.vcpu(VCPU);
        self.requests += 1;
        let (code, words) = request.encode();
        mailbox.request.post(self.requests, code, &words);
        self.guest.answer();
        let (code, words) = mailbox.reply.read();
        let asked = || format!("{request:?}");
        match Outcome::from_number(code) {
            Some(Outcome::Done) => Ok(words),
            Some(outcome) => Err(MachineError::Declined { vcpu: VCPU, asked: asked(), outcome }),
            None => Err(MachineError::Nonsense { vcpu: VCPU, asked: asked(), code, words }),
        }
    }

    /// As [`vmm::Machine::discover`].
    pub(crate) fn discover(&mut self) -> Result<Found, MachineError> {
        let words = self.request(Request::Discover)?;
        let (vcpu, code) = (VCPU, Outcome::Done.number());
        let asked = format!("{:?}", Request::Discover);
        Found::decode(&words).ok_or(MachineError::Nonsense { vcpu, asked, code, words })
    }

    /// Records from its ring, the oldest first.
    pub(crate) fn records(&mut self) -> Vec<Words> {
        let ring = &self.shared.vcpu(VCPU).ring;
        let taken = std::iter::from_fn(|| ring.pop(&mut self.tail).ok().flatten());
        taken.map(|(_, words)| words).collect()
    }
}
