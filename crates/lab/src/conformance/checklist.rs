//! A machine to be looked at, and what was found.

use guest::request::{Outcome, Request};
use guest::source::Source;
use vmm::{Machine, MachineError};

use crate::bench::{Bench, Maker};
use crate::results::{Check, Verdict};
use crate::settings::LabError;

/// A running machine.
pub(super) struct Subject<'a> {
    pub(super) bench: &'a Bench<'a>,
    pub(super) maker: Maker,
    pub(super) machine: Machine,
}

/// A reading of a clock, between two of the TSC.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reading {
    pub(super) tsc_before: u64,
    pub(super) time_ns: u64,
    pub(super) tsc_after: u64,
}

impl<'a> Subject<'a> {
    pub(super) fn start(bench: &'a Bench<'a>, maker: Maker) -> Result<Self, LabError> {
        let machine = bench.start(maker, bench.settings.vcpus)?;
        for vcpu in 0..machine.vcpus() {
            machine.discover(vcpu)?;
        }
        Ok(Self { bench, maker, machine })
    }

    pub(super) fn is_own(&self) -> bool {
        self.maker != Maker::Kernel
    }

    pub(super) fn read(&self, vcpu: usize, source: Source) -> Result<Reading, LabError> {
        let [tsc_before, time_ns, tsc_after, ..] = self.machine.ask(vcpu, Request::Read(source))?;
        Ok(Reading { tsc_before, time_ns, tsc_after })
    }

    /// vCPU 0's.
    pub(super) fn read_msr(&self, msr: u32) -> Result<u64, LabError> {
        Ok(self.machine.ask(0, Request::ReadMsr { msr })?[0])
    }

    pub(super) fn write_msr(&self, msr: u32, value: u64) -> Result<(), LabError> {
        self.machine.ask(0, Request::WriteMsr { msr, value })?;
        Ok(())
    }

    /// Whether vCPU 0 gets #GP.
    pub(super) fn refuses(&self, request: Request) -> Result<bool, LabError> {
        match self.machine.ask(0, request) {
            Ok(_) => Ok(false),
            Err(MachineError::Declined { outcome: Outcome::Refused, .. }) => Ok(true),
            Err(error) => Err(error.into()),
        }
    }

    pub(super) fn refuses_write(&self, msr: u32, value: u64) -> Result<bool, LabError> {
        self.refuses(Request::WriteMsr { msr, value })
    }

    /// All of these writes, as one check.
    pub(super) fn all_refused(
        &self,
        name: &str,
        writes: &[(u32, u64)],
        checklist: &mut Checklist,
    ) -> Result<(), LabError> {
        let mut taken = Vec::new();
        for &(msr, value) in writes {
            if !self.refuses_write(msr, value)? {
                taken.push(format!("MSR {msr:#x} takes {value:#x}"));
            }
        }
        let found = match taken.is_empty() {
            true => format!("{} of {} writes", writes.len(), writes.len()),
            false => taken.join(", "),
        };
        checklist.holds(name, "refused with #GP", found, taken.is_empty());
        Ok(())
    }

    /// CPUID: EAX, EBX, ECX, EDX.
    pub(super) fn cpuid(&self, function: u32) -> Result<[u32; 4], LabError> {
        let words = self.machine.ask(0, Request::Cpuid { function, index: 0 })?;
        Ok([0, 1, 2, 3].map(|register| words[register] as u32))
    }

    /// The hypervisor's name in CPUID.
    pub(super) fn signature(&self) -> Result<String, LabError> {
        let [_, name @ ..] = self.cpuid(0x4000_0000)?;
        let bytes: Vec<u8> = name.iter().flat_map(|register| register.to_le_bytes()).collect();
        let name = String::from_utf8_lossy(&bytes);
        Ok(name.trim_end_matches('\0').escape_default().to_string())
    }

    /// The rate the guest is told.
    pub(super) fn told_hz(&self) -> u64 {
        match self.maker {
            Maker::Kernel => self.bench.host_tsc.0,
            Maker::Own(kind) => self.bench.provider(kind).advertised_tsc.0,
        }
    }
}

/// What was found of one maker's clock.
#[derive(Debug)]
pub(super) struct Checklist {
    label: &'static str,
    pub(super) checks: Vec<Check>,
}

impl Checklist {
    pub(super) fn of(maker: Maker) -> Self {
        Self { label: maker.label(), checks: Vec::new() }
    }

    fn add(&mut self, name: &str, bar: &str, found: String, verdict: Verdict) {
        let name = format!("{}: {name}", self.label);
        self.checks.push(Check { name, bar: bar.to_owned(), found, verdict });
    }

    pub(super) fn judged(
        &mut self,
        name: &str,
        bar: &str,
        found: impl Into<String>,
        verdict: Verdict,
    ) {
        self.add(name, bar, found.into(), verdict);
    }

    pub(super) fn holds(&mut self, name: &str, bar: &str, found: impl Into<String>, holds: bool) {
        self.add(name, bar, found.into(), Verdict::of(holds));
    }

    pub(super) fn not_measured(
        &mut self,
        name: &str,
        bar: &str,
        found: impl Into<String>,
        why: impl Into<String>,
    ) {
        self.add(name, bar, found.into(), Verdict::NotMeasured(why.into()));
    }

    /// The test itself could not be made.
    pub(super) fn fails(&mut self, name: &str, error: &LabError) {
        self.add(name, "the guest answers", error.to_string(), Verdict::Failed);
    }
}
