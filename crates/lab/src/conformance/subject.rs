//! What a conformance check runs on: a guest and its host, on KVM or simulated
//! in this process.

use guest::discovery::Found;
use guest::protocol::Words;
use guest::request::{Outcome, Request};
use guest::source::Source;
use host::{Event, GuestClock, Kind, Reading, VcpuId};
use pvclock::Nanos;
use pvclock::kvm_clock::TimeInfo;
use pvclock::shared::Page;
use vmm::{GuestRam, Machine, MachineError};

use super::checklist::Checklist;
use crate::bench::{Bench, Maker};
use crate::pages;
use crate::settings::LabError;

/// A running guest, its clock and its host.
pub(crate) trait Subject {
    fn bench(&self) -> &Bench<'_>;
    fn maker(&self) -> Maker;
    /// The virtual machine, unless the guest is simulated.
    fn machine(&self) -> Option<&Machine>;
    fn vcpus(&self) -> usize;
    fn ram(&self) -> &GuestRam;
    /// Sends the guest a request and waits for the reply.
    fn request(&self, vcpu: usize, request: Request) -> Result<Words, MachineError>;
    fn discover(&self, vcpu: usize) -> Result<Found, MachineError>;
    /// Runs `action` on our provider while no vCPU is in the guest; false if
    /// the kernel makes the clock.
    fn call_provider(&self, action: &mut dyn FnMut(&mut GuestClock, Reading, &GuestRam)) -> bool;
    /// Reports an event to our provider.
    fn host_event(&self, event: Event);
    fn host_clocks(&self) -> Reading;
    /// Lets time pass.
    fn pass(&self, span: Nanos);
    fn pause_and_resume(&self) -> Result<(), MachineError>;
    /// How often a check that has no natural number of rounds repeats.
    fn rounds(&self) -> u64;
    /// How much CLOCK_REALTIME and the guest's clock may differ in rate over a
    /// check.
    fn realtime_tolerance(&self) -> Nanos;
}

/// A reading of a clock, between two of the TSC.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sample {
    pub(super) tsc_before: u64,
    pub(super) time_ns: u64,
    pub(super) tsc_after: u64,
}

impl dyn Subject + '_ {
    pub(super) fn is_own(&self) -> bool {
        self.maker() != Maker::Kernel
    }

    pub(super) fn read(&self, vcpu: usize, source: Source) -> Result<Sample, LabError> {
        let [tsc_before, time_ns, tsc_after, ..] = self.request(vcpu, Request::Read(source))?;
        Ok(Sample { tsc_before, time_ns, tsc_after })
    }

    /// Reads an MSR on vCPU 0.
    pub(super) fn read_msr(&self, msr: u32) -> Result<u64, LabError> {
        Ok(self.request(0, Request::ReadMsr { msr })?[0])
    }

    pub(super) fn write_msr(&self, msr: u32, value: u64) -> Result<(), LabError> {
        self.request(0, Request::WriteMsr { msr, value })?;
        Ok(())
    }

    /// Whether vCPU 0 gets #GP.
    pub(super) fn refuses(&self, request: Request) -> Result<bool, LabError> {
        match self.request(0, request) {
            Ok(_) => Ok(false),
            Err(MachineError::Declined { outcome: Outcome::Refused, .. }) => Ok(true),
            Err(error) => Err(error.into()),
        }
    }

    pub(super) fn refuses_write(&self, msr: u32, value: u64) -> Result<bool, LabError> {
        self.refuses(Request::WriteMsr { msr, value })
    }

    /// Checks that all of these writes get #GP.
    pub(super) fn all_refused(
        &self,
        name: &str,
        writes: &[(u32, u64)],
        checklist: &mut Checklist,
    ) -> Result<(), LabError> {
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
        checklist.holds(name, "refused with #GP", found, accepted.is_empty());
        Ok(())
    }

    /// CPUID: EAX, EBX, ECX, EDX.
    pub(super) fn cpuid(&self, function: u32) -> Result<[u32; 4], LabError> {
        let words = self.request(0, Request::Cpuid { function, index: 0 })?;
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
        match self.maker() {
            Maker::Kernel => self.bench().host_tsc.0,
            Maker::Own(kind) => self.bench().provider(kind).advertised_tsc.0,
        }
    }

    /// [`Subject::call_provider`], with a result; nothing if the kernel makes
    /// the clock.
    pub(super) fn with_provider<R>(
        &self,
        action: impl FnOnce(&mut GuestClock, Reading, &GuestRam) -> R,
    ) -> Option<R> {
        let (mut action, mut result) = (Some(action), None);
        self.call_provider(&mut |clock, now, ram| {
            result = action.take().map(|action| action(clock, now, ram));
        });
        result
    }

    /// The time of vCPU 0's clock by our provider, ns.
    pub(super) fn provider_ns(&self) -> Option<u64> {
        self.with_provider(|clock, now, _| clock.time(VcpuId(0), now).0)
    }

    pub(super) fn page<P: Page + 'static>(&self, address: u64) -> &P {
        pages::page(self.ram(), address)
    }

    pub(super) fn time_info(&self, vcpu: usize) -> Result<TimeInfo, LabError> {
        pages::time_info(self.ram(), vcpu)
    }

    /// Has a vCPU exit and enter the guest again: pending page updates are
    /// written at the entry.
    pub(super) fn reenter(&self, vcpu: usize) -> Result<(), LabError> {
        self.request(vcpu, pages::EXIT)?;
        Ok(())
    }

    pub(super) fn reenter_all(&self) -> Result<(), LabError> {
        (0..self.vcpus()).try_for_each(|vcpu| self.reenter(vcpu))
    }

    /// The hypervisor that the guest must recognise.
    pub(super) fn kind(&self) -> Kind {
        match self.maker() {
            Maker::Kernel => Kind::Kvm,
            Maker::Own(kind) => kind,
        }
    }
}
