//! A stock Linux kernel as the judge of a provider: which clock source it takes, what
//! its log says, whether its time is the host's, what `doctor` and `watch` find inside.

mod arrived;
mod expected;
mod host_line;
mod inside;
mod judge;
mod moved;
mod power;
mod seen;
mod ticking;
mod vmclock;

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Serialize;
use vmm::{LinuxImage, Machine};

use crate::bench::{CLOCK_BY, LabBench, Provider};
use crate::results::{ColumnForm, ExperimentResult, ResultTable};
use crate::settings::{LabError, LabProgress, Result};
use crate::stock_settings::StockSettings;
use host_line::HostLine;
use moved::MovedRow;
use power::KEXEC;
use seen::StockEvidence;

pub use arrived::run_arrived;
pub use inside::{InsideReport, run_inside};

/// No PCI: the machine has none. A triple fault ends it.
const PARAMETERS: &str = "console=ttyS0 reboot=t panic=-1";
/// What this program is called with, inside.
const INSIDE: &str = "linux-inside";
const STAYS: &str = "--stays";
const WATCHED: &str = "--watch-s";
/// And where a saved guest is restored.
const ARRIVED: &str = "linux-arrived";
/// How often the serial port is looked at.
const LOOK: Duration = Duration::from_millis(50);
/// How often the host's clocks are read.
const HOST_READING: Duration = Duration::from_millis(250);
/// How much of the serial port's output is kept, and shown of a kernel that hangs.
const LOG_BYTES: usize = 256 << 10;
const SHOWN_LINES: usize = 25;

/// One boot of a stock kernel.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct Stock {
    clock_by: &'static str,
    kernel: String,
    vcpus: usize,
    clocksource: String,
    available: Vec<String>,
    /// From the machine's start to the report of its first program.
    took_s: f64,
    /// Its time of day less the host's.
    offset_ns: Option<f64>,
    /// Of reading both.
    bound_ns: f64,
    /// How much faster its CLOCK_MONOTONIC_RAW is than the host's.
    rate_ppm: Option<f64>,
    /// The kernel's PTP clock of the VMClock less the host's time; the furthest.
    vmclock_offset_ns: Option<f64>,
    vmclock_bound_ns: Option<f64>,
    /// What the doctor found inside: severity and rule.
    findings: Vec<String>,
    /// Lines of the kernel's log about clocks.
    log: Vec<String>,
    /// Its restores in other processes, where it was saved.
    moved: Vec<MovedRow>,
}

fn table(rows: &[Stock]) -> ResultTable {
    use ColumnForm::{Count, Digits, Name, Nanos};
    let columns = [
        ("clock_by", "clock by", "", Name),
        ("kernel", "kernel", "", Name),
        ("vcpus", "vCPUs", "", Count),
        ("clocksource", "clock source", "", Name),
        ("offset_ns", "offset", "", Nanos),
        ("bound_ns", "±", "", Nanos),
        ("rate_ppm", "rate", "ppm", Digits(2)),
        ("vmclock_offset_ns", "VMClock", "", Nanos),
        ("vmclock_bound_ns", "VMClock ±", "", Nanos),
        ("took_s", "took", "s", Digits(1)),
    ];
    ResultTable::new("Linux: a stock kernel on each provider", &columns, rows)
        .worst("rate_ppm")
        .note(CLOCK_BY)
        .note(
            "offset: the guest's time of day minus the host's; read from its real-time clock, to \
             1 s, where no page shows it. rate: its CLOCK_MONOTONIC_RAW against the host's. \
             VMClock: the guest's PTP clock of the VMClock minus the host's time, with --vmclock.",
        )
}

/// One boot's end.
struct Boot {
    seen: StockEvidence,
    host: HostLine,
    /// Guest TSC less host TSC.
    tsc_offset: u64,
    /// From the machine's start to the guest's line.
    took: Duration,
}

pub(crate) fn run(
    bench: &LabBench<'_>,
    progress: &mut dyn LabProgress,
) -> Result<ExperimentResult> {
    let stock = bench.settings.stock.as_ref().ok_or(LabError::NoKernel)?;
    let own = bench.settings.providers.iter().map(|kind| Provider::Own(*kind));
    let by_kernel = stock.by_kernel.then_some(Provider::Kernel);
    let providers: Vec<_> = by_kernel.into_iter().chain(own).collect();
    let (mut rows, mut checks) = (Vec::new(), Vec::new());
    for (index, &provider) in providers.iter().enumerate() {
        progress.step(provider.label(), index as f64 / providers.len() as f64);
        let (booted, machine) = match boot(bench, stock, provider) {
            Ok((boot, machine)) => (Ok(boot), Some(machine)),
            Err(why) => (Err(why), None),
        };
        let (mut row, judged) = judge::judge(bench, provider, booted);
        checks.extend(judged);
        if let (Some(away), Some(machine), Some(row)) = (stock.away, machine, &mut row) {
            progress.step(
                &format!("{}: moved", provider.label()),
                index as f64 / providers.len() as f64,
            );
            let (moved, judged) = moved::run(provider, machine, away);
            row.moved = moved;
            checks.extend(judged);
        }
        rows.extend(row);
    }
    Ok((table(&rows), checks))
}

/// Boots, until the guest's line is there, the guest dies or the time is over; then
/// the end of its log is the reason.
fn boot(
    bench: &LabBench<'_>,
    stock: &StockSettings,
    provider: Provider,
) -> std::result::Result<(Boot, Machine), String> {
    let wanted = [(stock.away.is_some(), STAYS), (stock.kexec, KEXEC)];
    let wanted = wanted.into_iter().filter_map(|(is_wanted, word)| is_wanted.then_some(word));
    let watch_s = stock.watched.as_secs().to_string();
    let inside = [INSIDE, WATCHED, &watch_s].into_iter().chain(wanted);
    let inside = inside.collect::<Vec<_>>().join(" ");
    let image = LinuxImage {
        kernel: Arc::clone(&stock.kernel),
        initrd: Some(Arc::clone(&stock.initrd)),
        command_line: format!("{PARAMETERS} {} -- {inside}", stock.append),
    };
    let mut settings = bench.linux_machine(provider, bench.settings.vcpus, image);
    settings.vmclock = stock.vmclock.then_some(vmclock::SOURCE);
    let mut host = HostLine::default();
    host.read();
    let machine = Machine::start(&settings).map_err(|error| error.to_string())?;
    let started = Instant::now();
    let seen = wait_for_report(&machine, stock.limit, &mut host)?;
    let took = started.elapsed();
    let tsc_offset = machine.tsc_offset(0).map_err(|error| error.to_string())?;
    Ok((Boot { seen, host, tsc_offset, took }, machine))
}

/// Reads the host's clocks meanwhile, and is busy while the guest asks for it.
fn wait_for_report(
    machine: &Machine,
    limit: Duration,
    host: &mut HostLine,
) -> std::result::Result<StockEvidence, String> {
    let started = Instant::now();
    let (mut log, mut last_reading) = (Vec::new(), started);
    while started.elapsed() < limit {
        std::thread::sleep(LOOK);
        // Before the look: what was sent before the guest's end is there after it.
        let fault = machine.guest_fault();
        log.extend(machine.serial());
        log.drain(..log.len().saturating_sub(LOG_BYTES));
        let text = String::from_utf8_lossy(&log);
        let found = StockEvidence::find(&text);
        if found.is_some() || last_reading.elapsed() >= HOST_READING {
            host.read();
            last_reading = Instant::now();
        }
        if let Some(seen) = found {
            return seen.map_err(|why| with_log(&why, &log));
        }
        if let Some(fault) = fault {
            return Err(with_log(&format!("the guest ended: {fault}"), &log));
        }
    }
    let exits: u64 = (0..machine.vcpus()).map(|vcpu| machine.exits(vcpu)).sum();
    let at = machine.registers(0).map_or_else(|why| why.to_string(), |at| format!("{:#x}", at.rip));
    let what = format!(
        "no report within {limit:?}, after {exits} exits, with vCPU 0 at {at}; where KVM itself is emulated, raise `--limit`"
    );
    Err(with_log(&what, &log))
}

fn with_log(what: &str, log: &[u8]) -> String {
    let text = String::from_utf8_lossy(log);
    let lines: Vec<&str> =
        text.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
    let shown = &lines[lines.len().saturating_sub(SHOWN_LINES)..];
    format!("{what}; the last lines of its log:\n{}", shown.join("\n"))
}

impl LabBench<'_> {
    /// The settings of a machine with a stock kernel. Where kvm-clock tells the time
    /// of day there is no real-time clock: Debian's kernel would set the time by it,
    /// to a second (CONFIG_RTC_HCTOSYS).
    fn linux_machine(&self, provider: Provider, vcpus: usize, image: LinuxImage) -> vmm::Settings {
        let settings = self.machine(provider, vcpus);
        let mut linux = vmm::Settings::linux(settings.backend, image);
        if provider.name() == host::ClockProvider::Kvm.name() {
            linux.devices.rtc = None;
        }
        vmm::Settings { vcpus, timeout: settings.timeout, ..linux }
    }
}

/// The row of a boot.
fn row(
    provider: Provider,
    vcpus: usize,
    boot: &Boot,
    judged: &judge::JudgedTimes,
    vmclock: Option<&vmclock::VmClockTimes>,
) -> Stock {
    Stock {
        clock_by: provider.label(),
        kernel: boot.seen.release.clone(),
        vcpus,
        clocksource: boot.seen.clocksource.clone(),
        available: boot.seen.available.clone(),
        took_s: boot.took.as_secs_f64(),
        offset_ns: judged.offset_ns,
        bound_ns: judged.bound_ns,
        rate_ppm: judged.rate_ppm,
        vmclock_offset_ns: vmclock.map(|vmclock| vmclock.offset_ns),
        vmclock_bound_ns: vmclock.map(|vmclock| vmclock.bound_ns),
        findings: boot.seen.findings.clone(),
        log: boot.seen.log.clone(),
        moved: Vec::new(),
    }
}
