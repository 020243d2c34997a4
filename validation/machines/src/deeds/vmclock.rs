//! QEMU's VMClock with a time, which QEMU itself does not write: it is written here,
//! into QEMU's memory, at a known rate of the TSC, which is this system's under
//! emulation. The page is what `drift` is then held against, and the PTP clock that
//! the kernel makes of it.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt as _;
use std::sync::OnceLock;
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime};

use pvclock::Nanos;
use pvclock::counter::{Counter as _, Tsc};
use pvclock::vmclock::{CounterId, TimeType, VmClockFlags, VmClockInfo, VmClockStatus};

use crate::checks::Checks;
use crate::machine::Machine;
use crate::outcome::Result;

use super::Place;
use super::doctor;
use super::drift::{self, Reference};

/// Where the machine has the page (QEMU: include/hw/acpi/vmclock.h, VMCLOCK_ADDR).
const ADDRESS: &str = "0xfeffb000";

/// How fast its time is.
const FAST_PPM: f64 = 50.0;

/// What it says of its error: it is right by definition.
const ERROR: Nanos = Nanos(1000);

/// For how long this system's TSC is measured: to some 0.01 ppm.
const MEASURED: Duration = Duration::from_secs(4);

/// How often a reading of two clocks is tried; that of the shortest counts.
const TRIES: u32 = 20;

/// The driver looks at the page when it is loaded.
const RELOAD: &str =
    "rmmod ptp_vmclock; insmod /modules/ptp_vmclock.ko; cat /sys/class/ptp/*/clock_name";

/// What `doctor` says of the host's word.
const RULE: &str = "vmclock-status";

pub(super) fn run(place: &Place<'_>, machine: &mut Machine, checks: &mut Checks) -> Result {
    let (page, mut info) = write(machine)?;
    drift::against(place, machine, &references(), checks)?;
    for (status, expected) in [
        (VmClockStatus::UNRELIABLE, true),
        (VmClockStatus::SYNCHRONISED, false),
        (VmClockStatus::FREE_RUNNING, true),
    ] {
        info.clock_status = status;
        page.write(&mut info, machine)?;
        let when = format!("the page has status {}", status.0);
        checks.push(doctor::found(machine, doctor::DOCTOR, RULE, &when, expected)?);
    }
    Ok(())
}

/// Writes this system's time into the page, of which the kernel then makes a PTP clock.
pub(super) fn write(machine: &mut Machine) -> Result<(Page, VmClockInfo), String> {
    let page = Page::find(machine)?;
    let at = anchor(machine)?;
    let mut info = filled(page.read()?, tsc_hz(), at);
    page.write(&mut info, machine)?;
    if machine.execute(RELOAD)?.is_empty() {
        return Err("the kernel made no PTP clock of the page".to_owned());
    }
    Ok((page, info))
}

/// The page, and the kernel's clock of it.
pub(super) fn references() -> [Reference; 2] {
    [
        ("vmclock /dev/vmclock0".to_owned(), "a VMClock 50 ppm fast", FAST_PPM),
        ("phc /dev/ptp0".to_owned(), "its PTP clock", FAST_PPM),
    ]
}

/// The page, in the memory of the machine's QEMU.
#[derive(Debug)]
pub(super) struct Page {
    memory: File,
    at: u64,
}

impl Page {
    fn find(machine: &mut Machine) -> Result<Self, String> {
        let process = machine.hypervisor()?;
        let qmp = machine.qmp.as_mut().ok_or("the page is found by QMP")?;
        let said = qmp.monitor(&format!("gpa2hva {ADDRESS}"))?;
        let at = said.as_str().and_then(address);
        let at = at.ok_or_else(|| format!("gpa2hva {ADDRESS}: {said}"))?;
        let path = format!("/proc/{process}/mem");
        let memory = OpenOptions::new().read(true).write(true).open(&path);
        Ok(Self { memory: memory.map_err(|error| format!("{path}: {error}"))?, at })
    }

    fn read(&self) -> Result<VmClockInfo, String> {
        let mut bytes = [0; VmClockInfo::SIZE];
        self.memory.read_exact_at(&mut bytes, self.at).map_err(|error| error.to_string())?;
        VmClockInfo::from_bytes(&bytes).map_err(|error| error.to_string())
    }

    /// While the machine stands: no reader sees a part.
    pub(super) fn write(&self, info: &mut VmClockInfo, machine: &mut Machine) -> Result {
        info.seq_count = info.seq_count.wrapping_add(2);
        let qmp = machine.qmp.as_mut().ok_or("a pause needs QMP")?;
        qmp.stop()?;
        let written = self.memory.write_all_at(&info.to_bytes(), self.at);
        qmp.cont()?;
        written.map_err(|error| format!("the page cannot be written: {error}"))
    }
}

/// The address of `Host virtual address for 0xfeffb000 (vmclock) is 0x7f0000000000`.
fn address(said: &str) -> Option<u64> {
    let (_, address) = said.trim().rsplit_once("is 0x")?;
    u64::from_str_radix(address, 16).ok()
}

/// A page that runs on at a rate, fast by [`FAST_PPM`], from a time at a count.
pub(super) fn filled(
    info: VmClockInfo,
    hz: f64,
    (since_1970, count): (Duration, u64),
) -> VmClockInfo {
    // Of 2.4 GHz a cycle is 7 686 143 364 of these: to better than a part in 10^9.
    let period = 2f64.powi(64) / hz * (1.0 + FAST_PPM / 1e6);
    let fraction = u128::from(since_1970.subsec_nanos()) << 64;
    VmClockInfo {
        counter_id: CounterId::X86_TSC,
        time_type: TimeType::UTC,
        flags: info
            .flags
            .union(VmClockFlags::TAI_OFFSET_VALID)
            .union(VmClockFlags::PERIOD_MAX_ERROR_VALID)
            .union(VmClockFlags::TIME_MAX_ERROR_VALID),
        clock_status: VmClockStatus::SYNCHRONISED,
        tai_offset_s: -37,
        counter_value: count,
        period_shift: 0,
        period: period as u64,
        period_max_error: 0,
        time_sec: since_1970.as_secs(),
        time_frac: (fraction / 1_000_000_000) as u64,
        time_max_error: ERROR,
        ..info
    }
}

/// The machine's TSC, and this system's time at that.
fn anchor(machine: &mut Machine) -> Result<(Duration, u64), String> {
    let start = SystemTime::now();
    let count = count(machine)?;
    Ok((start.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default(), count))
}

/// The machine's TSC.
pub(super) fn count(machine: &mut Machine) -> Result<u64, String> {
    let count = machine.execute("guest-clock tsc")?;
    count.parse().map_err(|error| format!("guest-clock printed {count:?}: {error}"))
}

/// The rate of this system's TSC, by its monotonic clock, by which QEMU's timers go:
/// measured once, as it is one.
pub(crate) fn tsc_hz() -> f64 {
    static HZ: OnceLock<f64> = OnceLock::new();
    *HZ.get_or_init(|| {
        let (from, first) = both();
        sleep(MEASURED);
        let (to, last) = both();
        last.wrapping_sub(first) as f64 / (to - from).as_secs_f64()
    })
}

/// Two clocks at once: between two readings of the one as close as may be.
fn both() -> (Instant, u64) {
    let one = || {
        let (before, count, after) = (Instant::now(), Tsc.read_ordered(), Instant::now());
        (after - before, before + (after - before) / 2, count)
    };
    let (_, at, count) =
        (0..TRIES).map(|_| one()).min_by_key(|(took, ..)| *took).unwrap_or_else(one);
    (at, count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_goes_on_at_its_rate() {
        let at = Duration::new(1_800_000_000, 250_000_000);
        let empty = VmClockInfo { size: 4096, ..VmClockInfo::ZERO };
        let info = filled(empty, 1e9, (at, 5_000_000_000));
        let later = info.time_at(25_000_000_000).unwrap();
        let fast_ns = i64::from(later.subsecond_nanos()) - 250_000_000;
        assert_eq!(later.seconds, 1_800_000_020);
        assert!((fast_ns - 1_000_000).abs() < 100, "20 s fast by 50 ppm: {fast_ns} ns");
        assert_eq!(later.utc().unwrap().max_error.0, ERROR.0);
    }

    #[test]
    fn an_address_is_taken_from_what_qemu_says() {
        let said = "Host virtual address for 0xfeffb000 (vmclock) is 0x7f12000\r\n";
        assert_eq!((address(said), address("No memory")), (Some(0x7f1_2000), None));
    }
}
