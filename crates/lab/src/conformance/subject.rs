//! What a conformance check runs on: a guest and its host, and the checks so far.

use std::cell::RefCell;

use guest::request::{GuestRequest, RequestOutcome};
use guest::source::Source;
use host::VcpuId;
use pvclock::kvm_clock::TimeInfo;
use pvclock::shared::Page;
use vmm::{Machine, MachineError};

use crate::bench::{LabBench, Provider, boot_guest};
use crate::pages;
use crate::results::{Check, Verdict};
use crate::settings::LabError;
use crate::tsc_offsets::TscOffsets;

/// A running guest, its clock and its host.
pub(super) struct ConformanceSubject<'b> {
    pub(super) bench: &'b LabBench<'b>,
    pub(super) provider: Provider,
    pub(super) machine: Machine,
    checks: RefCell<Vec<Check>>,
}

/// A reading of a clock, between two of the TSC.
#[derive(Debug, Clone, Copy)]
pub(super) struct ConformanceSample {
    pub(super) tsc_before: u64,
    pub(super) time_ns: u64,
    pub(super) tsc_after: u64,
}

impl<'b> ConformanceSubject<'b> {
    pub(super) fn start(bench: &'b LabBench<'b>, provider: Provider) -> Result<Self, MachineError> {
        let machine = boot_guest(&bench.machine(provider, bench.settings.vcpus))?;
        Ok(Self { bench, provider, machine, checks: RefCell::default() })
    }

    pub(super) fn into_checks(self) -> Vec<Check> {
        self.checks.into_inner()
    }

    pub(super) fn record(
        &self,
        name: &str,
        expected: &str,
        found: impl Into<String>,
        verdict: Verdict,
    ) {
        let name = format!("{}: {name}", self.provider.label());
        let check = Check { name, expected: expected.into(), found: found.into(), verdict };
        self.checks.borrow_mut().push(check);
    }

    pub(super) fn holds(&self, name: &str, expected: &str, found: impl Into<String>, holds: bool) {
        self.record(name, expected, found, Verdict::judge(holds));
    }

    /// The verdict on what takes the guest's TSC to go on as its host's does: where KVM
    /// moves it by itself, what does not hold shows nothing.
    pub(super) fn by_tsc(&self, holds: bool) -> Result<Verdict, LabError> {
        let why = if holds { None } else { TscOffsets::probe()?.why_moved() };
        Ok(Verdict::judge(holds).excused(why))
    }

    /// Both texts must be equal.
    pub(super) fn equal(&self, name: &str, expected: &str, found: &str) {
        self.holds(name, expected, found, expected == found);
    }

    pub(super) fn not_measured(&self, name: &str, expected: &str, why: &str) {
        self.record(name, expected, "", Verdict::NotMeasured(why.into()));
    }

    pub(super) fn is_own(&self) -> bool {
        self.provider.is_own()
    }

    pub(super) fn read(&self, vcpu: usize, source: Source) -> Result<ConformanceSample, LabError> {
        let [tsc_before, time_ns, tsc_after, ..] =
            self.machine.request(vcpu, GuestRequest::Read(source))?;
        Ok(ConformanceSample { tsc_before, time_ns, tsc_after })
    }

    /// Reads an MSR on vCPU 0.
    pub(super) fn read_msr(&self, msr: u32) -> Result<u64, LabError> {
        Ok(self.machine.request(0, GuestRequest::ReadMsr { msr })?[0])
    }

    pub(super) fn write_msr(&self, msr: u32, value: u64) -> Result<(), LabError> {
        self.machine.request(0, GuestRequest::WriteMsr { msr, value })?;
        Ok(())
    }

    /// Checks that an MSR reads as it was written.
    pub(super) fn reads_back(&self, name: &str, msr: u32, written: u64) -> Result<(), LabError> {
        let value = self.read_msr(msr)?;
        self.equal(name, &format!("{written:#x}"), &format!("{value:#x}"));
        Ok(())
    }

    /// Whether vCPU 0 gets #GP.
    pub(super) fn refuses(&self, request: GuestRequest) -> Result<bool, LabError> {
        match self.machine.request(0, request) {
            Ok(_) => Ok(false),
            Err(MachineError::Declined { outcome: RequestOutcome::Refused, .. }) => Ok(true),
            Err(error) => Err(error.into()),
        }
    }

    pub(super) fn refuses_write(&self, msr: u32, value: u64) -> Result<bool, LabError> {
        self.refuses(GuestRequest::WriteMsr { msr, value })
    }

    /// Checks that all of these writes get #GP.
    pub(super) fn all_refused(&self, name: &str, writes: &[(u32, u64)]) -> Result<(), LabError> {
        let mut accepted = Vec::new();
        for &(msr, value) in writes {
            if !self.refuses_write(msr, value)? {
                accepted.push(format!("MSR {msr:#x} accepts {value:#x}"));
            }
        }
        let found = if accepted.is_empty() {
            format!("{0} of {0} writes refused", writes.len())
        } else {
            accepted.join(", ")
        };
        self.holds(name, "refused with #GP", found, accepted.is_empty());
        Ok(())
    }

    /// CPUID: EAX, EBX, ECX, EDX.
    pub(super) fn cpuid(&self, function: u32) -> Result<[u32; 4], LabError> {
        let words = self.machine.request(0, GuestRequest::Cpuid { function, index: 0 })?;
        Ok([0, 1, 2, 3].map(|register| words[register] as u32))
    }

    /// The hypervisor's name in CPUID.
    pub(super) fn signature(&self) -> Result<String, LabError> {
        let [_, name @ ..] = self.cpuid(0x4000_0000)?;
        let bytes: Vec<u8> = name.iter().flat_map(|register| register.to_le_bytes()).collect();
        let name = String::from_utf8_lossy(&bytes);
        Ok(name.trim_end_matches('\0').escape_default().to_string())
    }

    /// The TSC frequency advertised to the guest.
    pub(super) fn advertised_hz(&self) -> u64 {
        match self.provider {
            Provider::Kernel | Provider::KernelHyperV => self.bench.host_tsc.0,
            Provider::Own(kind) => self.bench.host_settings(kind).advertised_tsc.0,
        }
    }

    /// The time of vCPU 0's clock by our provider, ns.
    pub(super) fn provider_ns(&self) -> Option<u64> {
        self.machine.with_clock_exclusive(|clock, now, _| clock.time(VcpuId(0), now).0)
    }

    pub(super) fn page<P: Page + 'static>(&self, address: u64) -> &P {
        pages::page(self.machine.ram(), address)
    }

    pub(super) fn time_info(&self, vcpu: usize) -> Result<TimeInfo, LabError> {
        pages::time_info(self.machine.ram(), vcpu)
    }

    pub(super) fn reenter(&self, vcpu: usize) -> Result<(), LabError> {
        pages::reenter(&self.machine, vcpu)
    }

    pub(super) fn reenter_all(&self) -> Result<(), LabError> {
        pages::reenter_all(&self.machine)
    }
}
