//! The guest's code, called through the mailbox as in a machine.

use guest::discovery::Found;
use guest::protocol::{SharedArea, Words};
use guest::request::Request;
use guest::serve::Guest;
use vmm::{MachineError, reply};

use super::time::Time;
use super::vm::InProcessVm;
use crate::sample::VCPU;

/// A vCPU that runs only to reply to a request.
pub(crate) struct GuestCode<'b, T: Time> {
    guest: Guest<'b, InProcessVm<T>>,
    shared: &'b SharedArea,
    requests: u64,
    /// Records read from its ring.
    tail: u64,
}

impl<'b, T: Time> GuestCode<'b, T> {
    /// Starts it: it finds its clocks and registers its pages.
    pub(crate) fn start(vm: &'b InProcessVm<T>) -> Self {
        let shared = vm.ram.shared();
        Self { guest: Guest::start(vm, shared, VCPU), shared, requests: 0, tail: 0 }
    }

    /// As [`vmm::Machine::request`].
    pub(crate) fn request(&mut self, request: Request) -> Result<Words, MachineError> {
        let mailbox = self.shared.vcpu(VCPU);
        self.requests += 1;
        let (code, words) = request.encode();
        mailbox.request.post(self.requests, code, &words);
        self.guest.answer();
        let (code, words) = mailbox.reply.read();
        reply::decode(VCPU, request, code, words)
    }

    /// As [`vmm::Machine::discover`].
    pub(crate) fn discover(&mut self) -> Result<Found, MachineError> {
        reply::found(VCPU, self.request(Request::Discover)?)
    }

    /// Records from its ring, the oldest first.
    pub(crate) fn records(&mut self) -> Vec<Words> {
        let ring = &self.shared.vcpu(VCPU).ring;
        let taken = std::iter::from_fn(|| ring.pop(&mut self.tail).ok().flatten());
        taken.map(|(_, words)| words).collect()
    }
}
