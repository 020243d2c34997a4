//! The guest's code, asked as a machine is: by the mailbox.

use guest::discovery::Found;
use guest::protocol::{SharedArea, Words};
use guest::request::{Outcome, Request};
use guest::serve::Guest;
use vmm::MachineError;

use super::board::Board;
use super::time::Time;
use crate::sample::VCPU;

/// A vCPU that answers when it is asked, and at no other time.
pub(super) struct GuestCode<'b, T: Time> {
    guest: Guest<'b, Board<T>>,
    shared: &'b SharedArea,
    asked: u64,
    /// Records taken from its ring.
    tail: u64,
}

impl<'b, T: Time> GuestCode<'b, T> {
    /// As after its start: it has found its clocks and registered its pages.
    pub(super) fn start(board: &'b Board<T>) -> Self {
        let shared = board.ram.shared();
        Self { guest: Guest::start(board, shared, VCPU), shared, asked: 0, tail: 0 }
    }

    /// As [`vmm::Machine::ask`].
    pub(super) fn ask(&mut self, request: Request) -> Result<Words, MachineError> {
        let mailbox = self.shared.vcpu(VCPU);
        self.asked += 1;
        let (code, words) = request.encode();
        mailbox.request.post(self.asked, code, &words);
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
    pub(super) fn discover(&mut self) -> Result<Found, MachineError> {
        let words = self.ask(Request::Discover)?;
        let (vcpu, code) = (VCPU, Outcome::Done.number());
        let asked = format!("{:?}", Request::Discover);
        Found::decode(&words).ok_or(MachineError::Nonsense { vcpu, asked, code, words })
    }

    /// Records from its ring, the oldest first.
    pub(super) fn records(&mut self) -> Vec<Words> {
        let ring = &self.shared.vcpu(VCPU).ring;
        let taken = std::iter::from_fn(|| ring.pop(&mut self.tail).ok().flatten());
        taken.map(|(_, words)| words).collect()
    }
}
