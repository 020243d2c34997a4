//! The CPU of a host without a constant TSC changes its frequency: its KVM hears
//! of it (kvmclock_cpufreq_notifier, arch/x86/kvm/x86.c) and gives the machine's
//! page another scale. That is no migration.

use std::time::Duration;

use crate::checks::{Check, Checks};
use crate::machine::Machine;
use crate::outcome::Result;
use crate::shell::Shell;

use super::Place;
use super::watching::{self, Caused};

/// The frequencies of the host's driver (`validation/machines/src/base/scaled_cpu.c`).
const FREQUENCIES: &str = "/sys/devices/system/cpu/cpu0/cpufreq";

/// Chooses the lowest and the highest, and the lowest again.
const CHANGES: [&str; 3] = ["min", "max", "min"];

/// An emulated CPU goes on at its rate: the page is wrong by 100 ppm until the host
/// writes it anew, by its own clock.
const BESIDES: &[&str] = &["host-stepped"];

/// Prints MSR_KVM_SYSTEM_TIME_NEW, 0x4b564d01, by the kernel's driver msr: where the machine
/// has its page, and whether that is in use (Linux: Documentation/virt/kvm/x86/msr.rst).
const MSR: &str =
    "dd if=/dev/cpu/0/msr bs=8 count=1 skip=1263947009 iflag=skip_bytes 2>/dev/null | xxd -p";
const IN_USE: u64 = 1;

/// The host's answer.
const REPLY: Duration = Duration::from_secs(30);

/// Where the page has its multiplier (struct pvclock_vcpu_time_info, tsc_to_system_mul).
const MULTIPLIER: u64 = 24;

pub(super) fn run(place: &Place<'_>, machine: &mut Machine, checks: &mut Checks) -> Result {
    let mut shell = Shell::connect(place.folder)?;
    let said = machine.execute(MSR)?;
    let page = page(&said).ok_or_else(|| format!("no page at {said:?}"))?;
    for to in CHANGES {
        let before = scale(machine, page)?;
        let line = format!(
            "cd {FREQUENCIES}; echo userspace >scaling_governor; cat cpuinfo_{to}_freq \
             >scaling_setspeed"
        );
        let (_, seen) = watching::during(machine, |_| shell.execute(&line, REPLY))?;
        let after = scale(machine, page)?;
        let what = "the host's CPU at another frequency";
        checks.push(Check::new(
            format!("watch: {what}: the page has another scale"),
            format!("{before}, then {after}"),
            before != after,
        ));
        let caused = Caused { what, kinds: &[], besides: BESIDES, size_s: None };
        checks.push(watching::judge(&caused, &seen));
    }
    Ok(())
}

/// The address of the page, of the MSR's bytes as `xxd -p` prints them: the lowest first.
fn page(printed: &str) -> Option<u64> {
    let msr = u64::from_str_radix(printed.trim(), 16).ok()?.swap_bytes();
    (printed.trim().len() == 16 && msr & IN_USE != 0).then_some(msr & !IN_USE)
}

/// The scale that the page has: QEMU reads the machine's memory.
fn scale(machine: &mut Machine, page: u64) -> Result<u32> {
    let qmp = machine.qmp.as_mut().ok_or("the page is read by QMP")?;
    let said = qmp.monitor(&format!("xp /1wx {:#x}", page + MULTIPLIER))?;
    said.as_str().and_then(word).ok_or_else(|| format!("xp: {said}"))
}

/// The word of `00000000bf812018: 0xc53a1b2c`.
fn word(said: &str) -> Option<u32> {
    let (_, word) = said.trim().split_once(": 0x")?;
    u32::from_str_radix(word, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_and_its_scale_are_found() {
        assert_eq!(page("012081bf00000000\n"), Some(0xbf81_2000));
        assert_eq!(page("002081bf00000000"), None, "the page is not in use");
        assert_eq!(page(""), None);
        assert_eq!(word("00000000bf812018: 0xc53a1b2c\r\n"), Some(0xc53a_1b2c));
        assert_eq!(word("Cannot access memory"), None);
    }
}
