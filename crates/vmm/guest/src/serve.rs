//! A vCPU's main loop in our own machine: requests in, replies out.

use pvclock::counter::Counter;
use pvclock::kvm_clock::TimeReader;

use crate::clocks::GuestClocks;
use crate::contention::Contest;
use crate::discovery::Discovery;
use crate::hardware::{Hardware, Misbehaviour};
use crate::layout::{DOORBELL, DOORBELL_IDLE};
use crate::protocol::{RECORDS, SharedArea, WORDS, Words};
use crate::request::{GuestRequest, RequestOutcome};
use crate::x2apic::{DIVIDE, ENABLED, INITIAL_COUNT, LVT_TIMER, PERIODIC, SPURIOUS};
use crate::{contention, cost, monotonic, network};

/// Polls of the mailbox before the guest calls the host: some 100 µs, so that
/// requests in quick succession cost no exit.
const SPINS: u32 = 4000;

/// The vector of a tick.
const TICK: u64 = 0x20 | PERIODIC as u64;
/// The timer's input is divided by 1.
const BY_ONE: u64 = 0b1011;

/// One vCPU.
#[derive(Debug)]
pub struct ReportServer<'a, H: Hardware> {
    hardware: &'a H,
    shared: &'a SharedArea,
    vcpu: usize,
    clocks: GuestClocks,
    /// The last request that got a reply.
    answered: u64,
}

impl<'a, H: Hardware> ReportServer<'a, H> {
    /// Finds the clocks and registers the pages.
    pub fn start(hardware: &'a H, shared: &'a SharedArea, vcpu: usize) -> Self {
        let found = Discovery::probe(hardware, vcpu);
        let clocks = GuestClocks::new(hardware, found, vcpu);
        Self { hardware, shared, vcpu, clocks, answered: 0 }
    }

    /// Handles requests for ever.
    pub fn serve(&mut self) -> ! {
        loop {
            let mut spins = 0;
            while !self.answer() {
                self.hardware.pause();
                spins += 1;
                if spins == SPINS {
                    spins = 0;
                    self.hardware.port_write_8(DOORBELL, DOORBELL_IDLE);
                }
            }
        }
    }

    /// Handles the pending request, if there is one.
    pub fn answer(&mut self) -> bool {
        let mailbox = self.shared.vcpu(self.vcpu);
        let number = mailbox.request.number();
        if number == self.answered {
            return false;
        }
        let (code, words) = mailbox.request.read();
        mailbox.records.clear();
        let (outcome, words) = match GuestRequest::decode(code, &words) {
            None => (RequestOutcome::NotUnderstood, [0; 6]),
            Some(request) => match self.perform(request) {
                Ok(words) => (RequestOutcome::Done, words),
                Err(outcome) => (outcome, [0; 6]),
            },
        };
        self.answered = number;
        mailbox.reply.post(number, outcome.number(), &words);
        true
    }

    fn perform(&mut self, request: GuestRequest) -> Result<Words, RequestOutcome> {
        let hardware = self.hardware;
        match request {
            GuestRequest::Discover => Ok(self.clocks.discovery().encode()),
            GuestRequest::ReadMsr { msr } => {
                let value = hardware.read_msr(msr).map_err(|_| RequestOutcome::Refused)?;
                Ok([value, 0, 0, 0, 0, 0])
            }
            GuestRequest::WriteMsr { msr, value } => {
                hardware.write_msr(msr, value).map_err(|_| RequestOutcome::Refused)?;
                Ok([0; 6])
            }
            GuestRequest::Cpuid { function, index } => {
                let [a, b, c, d] = hardware.cpuid(function, index).map(u64::from);
                Ok([a, b, c, d, 0, 0])
            }
            GuestRequest::Read(source) => {
                let (before, time, after) = self.clocks.read_between(hardware, source)?;
                Ok([before, time, after, 0, 0, 0])
            }
            GuestRequest::Cost { source, reads, rounds } => {
                for round in 0..rounds {
                    let (bare, cycles) =
                        cost::round(hardware, &self.clocks, self.vcpu, source, reads)?;
                    self.record(&[round, bare, cycles, 0, 0, 0]);
                }
                Ok([rounds, reads, 0, 0, 0, 0])
            }
            GuestRequest::Monotonic { source, reads, participants, guarded } => {
                let guard = monotonic::Guard { participants, on: guarded };
                let shared = self.shared;
                monotonic::run(hardware, shared, &mut self.clocks, source, reads, guard)
                    .map(|order| order.encode())
            }
            GuestRequest::Ticks { period_ns, cycles } => self.ticks(period_ns, cycles),
            GuestRequest::Contend(contest) => Ok(self.contend(&contest)),
            GuestRequest::Ping(flow) => self.ping(flow),
            GuestRequest::TakeGuestStopped => {
                let reader = TimeReader::new(&hardware.pages().vcpus[self.vcpu].time);
                Ok([reader.take_guest_stopped().into(), 0, 0, 0, 0, 0])
            }
            GuestRequest::PortWrite { port, value } => {
                hardware.port_write_8(port, value);
                Ok([0; 6])
            }
            GuestRequest::MmioWrite { address, value } => {
                hardware.mmio_write_64(address, value);
                Ok([0; 6])
            }
            GuestRequest::Misbehave(how) => {
                if how == Misbehaviour::FloodRing {
                    self.shared.vcpu(self.vcpu).records.claim(2 * RECORDS as u64);
                } else {
                    hardware.misbehave(how);
                }
                Ok([0; 6])
            }
        }
    }

    /// Until the first tick after so many cycles.
    fn ticks(&self, period_ns: u64, cycles: u64) -> Result<Words, RequestOutcome> {
        let hardware = self.hardware;
        let taken = hardware.interrupts();
        let write =
            |(msr, value)| hardware.write_msr(msr, value).map_err(|_| RequestOutcome::Refused);
        let registers = [SPURIOUS, LVT_TIMER, DIVIDE, INITIAL_COUNT];
        let values = [ENABLED, TICK, BY_ONE, period_ns];
        registers.into_iter().zip(values).try_for_each(write)?;
        let before = hardware.counter().read_ordered();
        let (mut last, mut longest) = (before, 0);
        while last.wrapping_sub(before) < cycles {
            hardware.halt();
            let now = hardware.counter().read_ordered();
            longest = now.wrapping_sub(last).max(longest);
            last = now;
        }
        write((INITIAL_COUNT, 0))?;
        Ok([before, last, hardware.interrupts() - taken, longest, 0, 0])
    }

    fn contend(&self, contest: &Contest) -> Words {
        let Self { hardware, shared, vcpu, .. } = *self;
        let mut spans = [0; contention::BUCKETS];
        let counted =
            contention::run(hardware, &shared.contended, &shared.ready, vcpu, contest, &mut spans);
        for (bucket, count) in spans.into_iter().enumerate().filter(|(_, count)| *count > 0) {
            self.record(&[bucket as u64, count.into(), 0, 0, 0, 0]);
        }
        counted.encode()
    }

    fn ping(&self, flow: network::Flow) -> Result<Words, RequestOutcome> {
        let mut took = [0; network::PINGS_MAX + 1];
        let counted = network::run(self.hardware, flow, &mut took)?;
        for six in took[1..=flow.pings as usize].chunks(WORDS) {
            let mut words = [0; WORDS];
            words[..six.len()].copy_from_slice(six);
            self.record(&words);
        }
        Ok(counted.encode())
    }

    fn record(&self, words: &Words) {
        self.shared.vcpu(self.vcpu).records.push(words);
    }
}
