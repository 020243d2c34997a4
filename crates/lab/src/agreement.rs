//! The kernel's page and ours for the same VM, compared at the same TSC.
//!
//! Our provider runs in addition to the kernel's clock. It is set once to the
//! time of the kernel's page, and then writes a page by itself, into memory that
//! the guest does not use.

use std::time::Instant;

use guest::layout::GuestPages;
use host::msr::{HV_GUEST_OS_ID, HV_REFERENCE_TSC, KVM_SYSTEM_TIME};
use host::pages::{ReferencePage, TimePage};
use host::{ClockAddress, ClockMemory, ClockProvider, GuestClock, HostEvent, VcpuId};
use instruments::measurements::Spread;
use pvclock::hyperv::ReferenceReader;
use pvclock::kvm_clock::TimeReader;
use pvclock::{Nanos, Ticks};
use serde::Serialize;
use vmm::{ClockBackend, GuestRam, Machine, MachineError, host_clock};

use crate::bench::LabBench;
use crate::pages::reenter;
use crate::results::{Check, ColumnForm, ExperimentResult, ResultTable};
use crate::sample::not_run;
use crate::settings::{LabError, LabProgress};
use crate::tsc_offsets::TscOffsets;

/// Where our page is: after all that the guest uses.
const OURS: ClockAddress = ClockAddress(guest::layout::PAGES + 0x8_0000);

const BOOT: VcpuId = VcpuId(0);

/// Samples of both pages.
const SAMPLES: u32 = 100;
/// After so many both pages are rewritten, each from its host's clock: otherwise
/// two extrapolations from one point would be compared.
const SAMPLES_A_PAGE: u32 = 10;
const NANOS_PER_UNIT: i128 = 100;

/// Two pages of one TSC and one frequency. Each truncates its scale, by at most 1 ppb: 10 ns
/// within the 10 s that a long run has between two updates. The rest is the roundings of some
/// updates, and a wide margin: an idle host has 6 ns.
const KVM_CLOCK_NS: f64 = 100.0;

/// What one update may add where another process comes between the host's readings of its
/// clock and its TSC: 0.6 µs were seen at a load of 15.
const READING_NS: f64 = 5_000.0;

/// Which pages are compared.
#[derive(Clone, Copy)]
struct AgreementPage {
    name: &'static str,
    kind: ClockProvider,
    backend: ClockBackend,
    kernel: ClockAddress,
    /// The largest difference allowed, ns.
    limit_ns: f64,
}

const KVM_CLOCK: AgreementPage = AgreementPage {
    name: "kvm-clock",
    kind: ClockProvider::Kvm,
    backend: ClockBackend::Kernel,
    kernel: ClockAddress(GuestPages::time_address(0)),
    limit_ns: KVM_CLOCK_NS,
};

/// The kernels that we have with it are emulated, and stop between two readings.
const HYPERV: AgreementPage = AgreementPage {
    name: "hyperv-page",
    kind: ClockProvider::HyperV,
    backend: ClockBackend::KernelHyperV,
    kernel: ClockAddress(GuestPages::reference_address()),
    limit_ns: 100_000.0,
};

impl AgreementPage {
    fn name(&self) -> String {
        format!("{}: KVM's page against Parachron's", self.name)
    }

    /// The time of such a page at a TSC, ns.
    fn time(&self, ram: &GuestRam, at: ClockAddress, tsc: u64) -> Option<i128> {
        if self.kind == ClockProvider::HyperV {
            let page: &ReferencePage = ram.page(at).ok()?;
            let units = ReferenceReader::new(page).units_100ns(&|| tsc).ok()?;
            return Some(i128::from(units) * NANOS_PER_UNIT);
        }
        let page: &TimePage = ram.page(at).ok()?;
        Some(TimeReader::new(page).nanos_at(Ticks(tsc)).ok()?.0.into())
    }
}

pub(crate) fn run(
    bench: &LabBench<'_>,
    progress: &mut dyn LabProgress,
) -> Result<ExperimentResult, LabError> {
    let mut pairs = [KVM_CLOCK, HYPERV].map(|page| (page, AgreementPair::start(bench, page)));
    for sample in 0..SAMPLES {
        progress.step("both pages", f64::from(sample) / f64::from(SAMPLES));
        std::thread::sleep(bench.settings.drift / SAMPLES);
        for (_, slot) in &mut pairs {
            let Ok(pair) = slot else { continue };
            let is_due = sample % SAMPLES_A_PAGE == 0;
            match if is_due { pair.rewrite() } else { Ok(()) } {
                Ok(()) => pair.sample(),
                Err(error) => *slot = Err(error),
            }
        }
    }
    let (mut rows, mut checks) = (Vec::new(), Vec::new());
    for (page, pair) in pairs {
        match pair.and_then(AgreementPair::end) {
            Ok(row) => {
                let (median_ns, worst_ns) = (row.difference_ns.median.abs(), row.worst_ns);
                let found = format!("{:.3} µs, at most {:.3} µs", median_ns / 1e3, worst_ns / 1e3);
                let holds = median_ns <= page.limit_ns && worst_ns <= page.limit_ns + READING_NS;
                // Ours is compared at the TSC offset that the guest began with.
                let moved = if holds { None } else { TscOffsets::probe()?.why_moved() };
                let check = Check::new(page.name(), expected(page.limit_ns), found, holds);
                checks.push(check.excused(moved));
                rows.push(row);
            }
            Err(error) => {
                checks.push(not_run(page.name(), expected(page.limit_ns), &error));
            }
        }
    }
    Ok((table(&rows), checks))
}

/// Two pages for one guest.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct AgreementRow {
    page: &'static str,
    seconds: f64,
    /// Our page minus the kernel's at the same TSC.
    difference_ns: Spread,
    worst_ns: f64,
    samples: u64,
}

fn table(rows: &[AgreementRow]) -> ResultTable {
    use ColumnForm::{Count, Digits, Name, Nanos};
    let columns = [
        ("page", "page", "", Name),
        ("seconds", "over", "s", Digits(1)),
        ("difference_ns.min", "min", "", Nanos),
        ("difference_ns.median", "median", "", Nanos),
        ("difference_ns.p99", "p99", "", Nanos),
        ("difference_ns.max", "max", "", Nanos),
        ("worst_ns", "worst", "", Nanos),
        ("samples", "samples", "", Count),
    ];
    let title = "Agreement: Parachron's page minus KVM's, for one guest at the same TSC";
    ResultTable::new(title, &columns, rows).worst("worst_ns")
}

fn expected(limit_ns: f64) -> String {
    let worst_ns = limit_ns + READING_NS;
    format!("differ by {} µs in the median, and at most by {} µs", limit_ns / 1e3, worst_ns / 1e3)
}

/// The kernel's page and ours, of one machine.
struct AgreementPair {
    page: AgreementPage,
    machine: Machine,
    host: GuestClock,
    tsc_offset: u64,
    differences_ns: Vec<f64>,
    started: Instant,
}

impl AgreementPair {
    fn start(bench: &LabBench<'_>, page: AgreementPage) -> Result<Self, LabError> {
        let settings =
            vmm::Settings { timeout: bench.settings.timeout, ..vmm::Settings::new(page.backend) };
        let machine = Machine::start(&settings)?;
        // The guest's start registers the kernel's page.
        machine.discover(0)?;
        let tsc_offset = machine.tsc_offset(0)?;
        let host = own_provider(bench, &machine, page, tsc_offset)?;
        let started = Instant::now();
        Ok(Self { page, machine, host, tsc_offset, differences_ns: Vec::new(), started })
    }

    /// Makes both hosts rewrite their page.
    fn rewrite(&mut self) -> Result<(), LabError> {
        // The same offset again makes KVM recompute its master clock.
        self.machine.set_tsc_offset(0, self.tsc_offset)?;
        reenter(&self.machine, 0)?;
        self.host.handle(HostEvent::HostResumed, host_clock::read(), self.machine.ram());
        Ok(())
    }

    fn sample(&mut self) {
        let (ram, tsc_offset) = (self.machine.ram(), self.tsc_offset);
        let now = host_clock::read();
        self.host.before_entry(BOOT, now, ram);
        let tsc = now.tsc.0.wrapping_add(tsc_offset);
        let theirs = self.page.time(ram, self.page.kernel, tsc);
        let ours = self.page.time(ram, OURS, tsc);
        if let (Some(theirs), Some(ours)) = (theirs, ours) {
            self.differences_ns.push((ours - theirs) as f64);
        }
    }

    fn end(self) -> Result<AgreementRow, LabError> {
        let samples = self.differences_ns.len() as u64;
        let difference_ns = Spread::from_values(self.differences_ns).ok_or(LabError::NoSamples)?;
        let seconds = self.started.elapsed().as_secs_f64();
        let worst_ns = difference_ns.max.abs().max(difference_ns.min.abs());
        Ok(AgreementRow { page: self.page.name, seconds, difference_ns, worst_ns, samples })
    }
}

/// Our own provider, set to the kernel's clock, with its page registered.
fn own_provider(
    bench: &LabBench<'_>,
    machine: &Machine,
    page: AgreementPage,
    tsc_offset: u64,
) -> Result<GuestClock, LabError> {
    let ram = machine.ram();
    let now = host_clock::read();
    let settings = host::ClockSettings::new(page.kind, bench.host_tsc);
    let mut host = GuestClock::new(settings, now).map_err(MachineError::from)?;
    host.handle(HostEvent::VcpuCreated { vcpu: BOOT, tsc_offset }, now, ram);
    // From the page: KVM_GET_CLOCK is rounded to the same, and Hyper-V's counts
    // from another zero.
    let tsc = now.tsc.0.wrapping_add(tsc_offset);
    let clock = page.time(ram, page.kernel, tsc).ok_or(LabError::NoSamples)?;
    let clock = Nanos(u64::try_from(clock).unwrap_or(0));
    host.handle(HostEvent::ClockSet { clock }, now, ram);
    let registered = if page.kind == ClockProvider::Kvm {
        host.write_msr(BOOT, KVM_SYSTEM_TIME, OURS.0 | 1, now, ram)
    } else {
        host.write_msr(BOOT, HV_GUEST_OS_ID, 1 << 63, now, ram)
            .and_then(|()| host.write_msr(BOOT, HV_REFERENCE_TSC, OURS.0 | 1, now, ram))
    };
    registered.map_err(LabError::Refused)?;
    host.before_entry(BOOT, now, ram);
    Ok(host)
}
