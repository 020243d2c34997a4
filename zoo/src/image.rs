//! The lab's guest image, booted by its PVH entry as any host may do, and its
//! report, read from the serial port.

use std::fs;
use std::path::Path;
use std::time::SystemTime;

use crate::boot;
use crate::checks::Check;
use crate::outcome::Failure;
use crate::qemu::Guest;

/// Clocks of this machine model, and those that only a paravirtual host has.
const PRESENT: &[&str] = &["tsc", "acpi_pm", "hpet", "pit"];
const PARAVIRTUAL: &[&str] = &["kvm-clock", "hyperv-page", "hyperv-counter"];

/// The report's first and last line (`crates/guest/src/report.rs`).
const FIRST: &str = "parachron guest report 1";
const LAST: &str = "parachron guest report ends";

/// The report of one boot.
#[derive(Debug)]
pub(crate) struct Report {
    /// The report's lines.
    pub(crate) lines: Vec<String>,
    /// This machine's time before the boot and after the end, s since 1970.
    pub(crate) between_s: (u64, u64),
}

/// Boots it, and reads its report.
pub(crate) fn run(folder: &Path, image: &Path, limit_s: u32) -> Result<Report, Failure> {
    let port = folder.join("image-report");
    let guest = Guest {
        kernel: image.to_owned(),
        linux: None,
        serial_ports: vec![port.clone()],
        more: Vec::new(),
        limit_s,
    };
    let before_s = now_s();
    boot::until_power_off(folder, &guest, || ())?;
    let output = boot::readable(&fs::read(&port).unwrap_or_default());
    let lines = lines(&output)?;
    Ok(Report { lines, between_s: (before_s, now_s()) })
}

fn now_s() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// The lines between the first and the last, which must both be present. The
/// first one may follow output of the firmware.
fn lines(output: &str) -> Result<Vec<String>, String> {
    let (_, report) = output
        .split_once(FIRST)
        .ok_or_else(|| format!("the guest image did not print {FIRST:?}"))?;
    let (report, _) = report
        .split_once(LAST)
        .ok_or_else(|| format!("the guest image stopped before {LAST:?}:{report}"))?;
    Ok(report.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect())
}

impl Report {
    /// The checks on it.
    pub(crate) fn checks(&self) -> Vec<Check> {
        let mut checks: Vec<Check> = PRESENT.iter().map(|clock| self.is_read(clock)).collect();
        checks.extend(PARAVIRTUAL.iter().map(|clock| {
            let what = format!("image: {clock} is not claimed");
            Check::of(&what, self.value(clock), |value| {
                (value.to_owned(), value.starts_with("not there"))
            })
        }));
        checks.push(self.rtc());
        checks
    }

    /// A clock was read, and the cost of a reading was measured.
    fn is_read(&self, clock: &str) -> Check {
        Check::of(&format!("image: {clock} is read"), self.value(clock), |value| {
            let cycles = value.split_once(" ns, ").and_then(|(_, cost)| cost.split_once(" cycles"));
            let cycles = cycles.and_then(|(cycles, _)| cycles.parse::<u64>().ok());
            (value.to_owned(), cycles.is_some_and(|cycles| cycles > 0))
        })
    }

    /// The RTC has this machine's time, within the second that it rounds to.
    fn rtc(&self) -> Check {
        Check::of("image: the RTC has this machine's time, ± 1 s", self.value("rtc"), |value| {
            let (before_s, after_s) = self.between_s;
            let found = format!("{value}, read between {before_s} s and {after_s} s");
            let ns = value.strip_suffix(" ns").and_then(|ns| ns.parse::<u64>().ok());
            let around = before_s.saturating_sub(1)..=after_s.saturating_add(1);
            (found, ns.is_some_and(|ns| around.contains(&(ns / 1_000_000_000))))
        })
    }

    /// A line's value. Detection comes before readings, so a clock may have two
    /// lines: the last one counts.
    fn value(&self, name: &str) -> Result<&str, String> {
        let mut lines = self.lines.iter().filter_map(|line| line.split_once(": "));
        lines
            .rfind(|(found, _)| *found == name)
            .map(|(_, value)| value)
            .ok_or_else(|| format!("no line of {name}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = "SeaBIOS\nBooting from ROM..parachron guest report 1\n\
        hypervisor: Other\n\
        kvm-clock: false (stable: false)\n\
        tsc: 135342 ns, 31 cycles a read, bare tsc 28\n\
        kvm-clock: not there (NoSuchClock)\n\
        hyperv-page: not there (NoSuchClock)\n\
        hyperv-counter: not there (NoSuchClock)\n\
        acpi_pm: 0 ns, 180 cycles a read, bare tsc 29\n\
        hpet: 0 ns, 474 cycles a read, bare tsc 30\n\
        pit: 0 ns, 470 cycles a read, bare tsc 29\n\
        rtc: 1795249206000000000 ns\n\
        parachron guest report ends\n";

    fn failing(output: &str) -> Vec<String> {
        let report =
            Report { lines: lines(output).unwrap(), between_s: (1_795_249_205, 1_795_249_206) };
        let checks = report.checks();
        assert_eq!(checks.len(), 8);
        let line = |check: &Check| format!("{}: {}", check.what, check.found);
        checks.iter().filter(|check| !check.passed).map(line).collect()
    }

    #[test]
    fn a_sound_report_passes() {
        assert!(failing(REPORT).is_empty(), "{:?}", failing(REPORT));
    }

    #[test]
    fn each_fault_breaks_its_check() {
        for (from, to, expected) in [
            ("hpet: 0 ns, 474 cycles a read, bare tsc 30", "hpet: not there (x)", "not there (x)"),
            ("pit: 0 ns, 470", "pit: 0 ns, 0", "pit is read: 0 ns, 0 cycles"),
            ("acpi_pm: 0 ns", "pm: 0 ns", "acpi_pm is read: no line of acpi_pm"),
            ("hyperv-page: not there (NoSuchClock)", "hyperv-page: 5 ns", "not claimed: 5 ns"),
            ("rtc: 1795249206", "rtc: 1795249208", "1795249208000000000 ns, read between"),
            ("rtc: 1795249206000000000 ns", "rtc: not there (Unreadable)", "(Unreadable)"),
        ] {
            assert!(REPORT.contains(from), "{from}");
            let failing = failing(&REPORT.replace(from, to));
            assert_eq!(failing.len(), 1, "{failing:?}");
            assert!(failing[0].contains(expected), "{expected:?} is not in {failing:?}");
        }
    }

    #[test]
    fn a_truncated_report_is_an_error() {
        assert_eq!(lines("").unwrap_err(), format!("the guest image did not print {FIRST:?}"));
        let cut = &REPORT[..REPORT.find("pit").unwrap()];
        assert!(lines(cut).unwrap_err().contains("stopped before"), "{cut}");
    }
}
