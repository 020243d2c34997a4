//! The conformance checks without a virtual machine: page, MSRs and guest code
//! agree on simulated time, to the nanosecond.

use std::cell::RefCell;

use guest::discovery::Found as Discovery;
use guest::protocol::Words;
use guest::request::Request;
use host::{Event, GuestClock, Kind, Reading};
use pvclock::Nanos;
use vmm::{GuestRam, Machine, MachineError};

use super::board::Board;
use super::guest_code::GuestCode;
use super::time::{Simulated, Time as _};
use crate::bench::{Bench, Maker};
use crate::conformance::{Subject, checks};
use crate::results::Findings;
use crate::run::Found;
use crate::settings::{LabError, Progress};

/// How long a pause lasts.
const PAUSE: Nanos = Nanos(5_000_000_000);

/// A guest of one provider.
struct Simulation<'b> {
    bench: &'b Bench<'b>,
    kind: Kind,
    board: &'b Board<Simulated>,
    guest: RefCell<GuestCode<'b, Simulated>>,
}

pub(super) fn run(bench: &Bench<'_>, progress: &mut dyn Progress) -> Result<Found, LabError> {
    let mut all = Vec::new();
    for (index, kind) in Kind::ALL.into_iter().enumerate() {
        let board = Board::new(bench.provider(kind), Simulated::new(bench.host_tsc))?;
        let guest = RefCell::new(GuestCode::start(&board));
        let subject = Simulation { bench, kind, board: &board, guest };
        all.append(&mut checks(&subject, |what, done| {
            progress.step(what, (index as f64 + done) / Kind::ALL.len() as f64);
        }));
    }
    Ok((Findings::Conformance, all))
}

impl Subject for Simulation<'_> {
    fn bench(&self) -> &Bench<'_> {
        self.bench
    }

    fn maker(&self) -> Maker {
        Maker::Own(self.kind)
    }

    fn machine(&self) -> Option<&Machine> {
        None
    }

    fn vcpus(&self) -> usize {
        1
    }

    fn ram(&self) -> &GuestRam {
        &self.board.ram
    }

    fn request(&self, _: usize, request: Request) -> Result<Words, MachineError> {
        self.guest.borrow_mut().request(request)
    }

    fn discover(&self, _: usize) -> Result<Discovery, MachineError> {
        self.guest.borrow_mut().discover()
    }

    fn call_provider(&self, action: &mut dyn FnMut(&mut GuestClock, Reading, &GuestRam)) -> bool {
        self.board.with_host(action);
        true
    }

    fn host_event(&self, event: Event) {
        self.board.host_event(event);
    }

    fn host_clocks(&self) -> Reading {
        self.board.time.reading()
    }

    fn pass(&self, span: Nanos) {
        self.board.time.pass(span);
    }

    fn pause_and_resume(&self) -> Result<(), MachineError> {
        self.host_event(Event::Paused);
        self.pass(PAUSE);
        self.host_event(Event::Resumed);
        Ok(())
    }

    fn rounds(&self) -> u64 {
        1_000
    }

    fn realtime_tolerance(&self) -> Nanos {
        Nanos(1_000)
    }
}
