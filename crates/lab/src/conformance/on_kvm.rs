//! A virtual machine on /dev/kvm as the subject of checks.

use guest::discovery::Found;
use guest::protocol::Words;
use guest::request::Request;
use host::{Event, GuestClock, Reading};
use pvclock::Nanos;
use vmm::{GuestRam, Machine, MachineError, host_clock};

use super::subject::Subject;
use crate::bench::{Bench, Maker};

pub(super) struct OnKvm<'a> {
    bench: &'a Bench<'a>,
    maker: Maker,
    machine: Machine,
}

impl<'a> OnKvm<'a> {
    pub(super) fn start(bench: &'a Bench<'a>, maker: Maker) -> Result<Self, MachineError> {
        let machine = bench.start(maker, bench.settings.vcpus)?;
        for vcpu in 0..machine.vcpus() {
            machine.discover(vcpu)?;
        }
        Ok(Self { bench, maker, machine })
    }
}

impl Subject for OnKvm<'_> {
    fn bench(&self) -> &Bench<'_> {
        self.bench
    }

    fn maker(&self) -> Maker {
        self.maker
    }

    fn machine(&self) -> Option<&Machine> {
        Some(&self.machine)
    }

    fn vcpus(&self) -> usize {
        self.machine.vcpus()
    }

    fn ram(&self) -> &GuestRam {
        self.machine.ram()
    }

    fn request(&self, vcpu: usize, request: Request) -> Result<Words, MachineError> {
        self.machine.ask(vcpu, request)
    }

    fn discover(&self, vcpu: usize) -> Result<Found, MachineError> {
        self.machine.discover(vcpu)
    }

    fn call_provider(&self, action: &mut dyn FnMut(&mut GuestClock, Reading, &GuestRam)) -> bool {
        self.machine.with_host_alone(action).is_some()
    }

    fn host_event(&self, event: Event) {
        self.machine.tell(event);
    }

    fn host_clocks(&self) -> Reading {
        host_clock::read()
    }

    fn pass(&self, span: Nanos) {
        std::thread::sleep(std::time::Duration::from_nanos(span.0));
    }

    fn pause_and_resume(&self) -> Result<(), MachineError> {
        self.machine.pause()?;
        self.machine.resume()
    }

    fn rounds(&self) -> u64 {
        20
    }

    /// kvmclock_test allows 5 s; between two readings of the host's clock
    /// that is not needed.
    fn realtime_tolerance(&self) -> Nanos {
        Nanos(1_000_000)
    }
}
