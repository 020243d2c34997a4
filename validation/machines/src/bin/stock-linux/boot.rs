//! One boot, until its guest has reported its clocks for a while.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use vmm::{ClockBackend, LinuxImage, Machine, Settings};

use crate::host_line::{HostLine, PlacedReading};
use crate::report::{Booted, Line, find};
use crate::{Args, INSIDE, KEXEC, Provider};

/// No PCI: the machine has none. A triple fault ends it.
const PARAMETERS: &str = "console=ttyS0 reboot=t panic=-1";
/// Nothing tells a guest by another clock than KVM's that it was stopped: its watchdogs take a
/// jump of 20 s for a lockup (kernel/watchdog.c, kernel/rcu/tree_stall.h). Of seven restores by
/// one save the last come later on a busy host.
const PATIENT: &str = "watchdog_thresh=60 rcupdate.rcu_cpu_stall_timeout=120";
/// How often the serial port is looked at, and the host's clocks are read.
pub(crate) const LOOK: Duration = Duration::from_millis(50);
/// How long the guest's clocks are compared with the host's.
const WATCHED: Duration = Duration::from_secs(3);
/// How much of the serial port's output is shown of a kernel that hangs.
const SHOWN_LINES: usize = 25;

/// A guest that runs, and what it reported.
pub(crate) struct Boot {
    pub(crate) machine: Machine,
    pub(crate) booted: Booted,
    /// All clocks at the first of its lines and at the last.
    pub(crate) first: Vec<PlacedReading>,
    pub(crate) last: Vec<PlacedReading>,
    /// From the machine's start to its report.
    pub(crate) took: Duration,
}

/// Boots, until the guest has reported long enough, or dies, or the time is over; then the end of
/// its log is the reason.
pub(crate) fn boot(args: &Args, provider: Provider) -> Result<Boot, String> {
    let machine = start(args, provider)?;
    let tsc_offset = machine.tsc_offset(0).map_err(|error| error.to_string())?;
    let limit = Duration::from_secs(args.limit_s);
    let (started, mut host, mut serial) = (Instant::now(), HostLine::default(), String::new());
    let mut reported = None;
    while started.elapsed() < limit {
        std::thread::sleep(LOOK);
        // Before the look: what was sent before the guest's end is there after it.
        let fault = machine.guest_fault();
        serial.push_str(&String::from_utf8_lossy(&machine.serial()));
        host.read();
        if let Some(fault) = fault {
            return Err(with_log(&format!("the guest ended: {fault}"), &serial));
        }
        let lines = find(&serial);
        let is_report = |line: &&Line| matches!(line, Line::Booted(_));
        let Some(Line::Booted(booted)) = lines.iter().find(is_report) else { continue };
        let took: Duration = *reported.get_or_insert_with(|| started.elapsed());
        let ticks = lines.iter().filter_map(|line| match line {
            Line::Tick(tick) => host.place_all(tick, tsc_offset),
            Line::Booted(_) => None,
        });
        let ticks: Vec<_> = ticks.collect();
        let (Some(first), Some(last)) = (ticks.first().cloned(), ticks.last().cloned()) else {
            continue;
        };
        let is_long = first
            .iter()
            .zip(&last)
            .all(|(first, last)| last.gained_since(first).1 >= WATCHED.as_nanos() as f64);
        if is_long {
            return Ok(Boot { machine, booted: booted.clone(), first, last, took });
        }
    }
    let exits: u64 = (0..machine.vcpus()).map(|vcpu| machine.exits(vcpu)).sum();
    let at = machine.registers(0).map_or_else(|why| why.to_string(), |at| format!("{:#x}", at.rip));
    let what = format!("no report within {limit:?}, after {exits} exits, with vCPU 0 at {at}");
    Err(with_log(&what, &serial))
}

/// Where kvm-clock tells the time of day there is no real-time clock: Debian's kernel would set
/// the time by it, to a second (CONFIG_RTC_HCTOSYS).
fn start(args: &Args, provider: Provider) -> Result<Machine, String> {
    let read = |path: &Path| -> Result<Arc<[u8]>, String> {
        let bytes = fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(bytes.into())
    };
    let words = if args.kexec { format!("{INSIDE} {KEXEC}") } else { INSIDE.to_owned() };
    let watchdogs = if provider.is_kvm_clock() { "" } else { PATIENT };
    let image = LinuxImage {
        kernel: read(&args.kernel)?,
        initrd: Some(read(&args.initrd)?),
        command_line: format!("{PARAMETERS} {watchdogs} {} -- {words}", args.append),
    };
    let backend = match provider {
        Provider::Kernel => ClockBackend::Kernel,
        Provider::Own(kind) => {
            let host_tsc = vmm::kvm::host_tsc().map_err(|error| error.to_string())?;
            let settings = host::ClockSettings::new(kind, host_tsc);
            let tsc_invariant = vmm::kvm::tsc_is_invariant();
            ClockBackend::Own(settings.changed(|new| new.tsc_invariant = tsc_invariant))
        }
    };
    let mut settings = Settings { vcpus: args.vcpus, ..Settings::linux(backend, image) };
    if provider.is_kvm_clock() {
        settings.rtc = false;
    }
    Machine::start(&settings).map_err(|error| error.to_string())
}

pub(crate) fn with_log(what: &str, serial: &str) -> String {
    let lines: Vec<&str> =
        serial.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
    let shown = &lines[lines.len().saturating_sub(SHOWN_LINES)..];
    format!("{what}; the last lines of its log:\n{}", shown.join("\n"))
}
