//! The parsers of `facts` on arbitrary text: they never fail, and what is
//! reduced for a capture stays as it is when it is reduced again.

use facts::kernel::pasted::PastedLog;
use facts::kernel::{self, LogEvent};
use facts::{clocksource, cpu, hardware, running, steering, system};
use inspect::sampler;
use inspect::tree::{self, manifest::Manifest};
use keeper::Learnt;
use sources::host::HostMessage;

/// Bytes as the parsers get them.
fn text(data: &[u8]) -> String {
    tree::clean(data)
}

/// A captured file is reduced again when it is read.
fn settles(text: &str, reduce: impl Fn(&str) -> String) -> String {
    let reduced = reduce(text);
    assert_eq!(reduced, reduce(&reduced));
    reduced
}

/// `/sys/devices/system/clocksource`.
pub(crate) fn clocksource(data: &[u8]) {
    let text = text(data);
    let _ = clocksource::parse_available(&text);
    let _ = clocksource::parse_current(&text);
}

/// CPUID's leaves, as tools print them.
pub(crate) fn cpuid(data: &[u8]) {
    let text = text(data);
    let _ = cpu::cpuid::parse_leaves(&text);
    let _ = cpu::cpuid::parse_hypervisor(&text);
    let _ = cpu::cpuid::parse_tsc_hz(&text);
}

/// `/proc/cpuinfo`, and the list of CPUs online.
pub(crate) fn cpuinfo(data: &[u8]) {
    let text = text(data);
    let _ = cpu::parse_online(&text);
    let reduced = settles(&text, cpu::reduce_cpuinfo);
    let _ = cpu::parse_model(&reduced);
    let _ = cpu::parse_flags(&reduced);
}

/// RTC, VMClock, the kvm-clock page and KVM, as captured.
pub(crate) fn hardware(data: &[u8]) {
    let text = text(data);
    let _ = hardware::parse_convention(&text);
    let _ = hardware::parse_vmclock(&text);
    let _ = hardware::parse_pvclock_page(&text);
    let _ = hardware::parse_kvm_host(&text);
}

/// A datagram on the host's socket.
pub(crate) fn host_message(data: &[u8]) {
    match HostMessage::parse(data) {
        Ok(_) => assert!(data.len() <= 128),
        Err(error) => assert!(error.found.chars().count() <= 40, "{error}"),
    }
}

/// The state file of `keep`: what is read is written back the same.
pub(crate) fn learnt_frequency(data: &[u8]) {
    let Ok(learnt) = text(data).parse::<Learnt>() else { return };
    let again: Learnt = learnt.to_string().parse().expect("what was written");
    assert_eq!(again.to_string(), learnt.to_string());
    assert!(learnt.frequency.ppb.abs() <= 500_000.0);
}

/// `/proc/cmdline`.
pub(crate) fn kernel_command_line(data: &[u8]) {
    let _ = kernel::parse_command_line(&settles(&text(data), kernel::reduce_command_line));
}

/// The kernel's configuration, packed and as text.
pub(crate) fn kernel_configuration(data: &[u8]) {
    let _ = inspect::unpack(data);
    let _ = kernel::parse_configuration(&settles(&text(data), kernel::reduce_configuration));
}

/// The kernel's log, whole and as it grows: of what grows, only the kernel's
/// own lines are kept.
pub(crate) fn kernel_log(data: &[u8]) {
    let text = text(data);
    let _ = kernel::parse_log(&settles(&text, kernel::reduce_log));
    let all = kernel::parse_log(&text).value().map_or(0, Vec::len);
    assert!(sampler::parse_growing_log(&text).value().map_or(0, Vec::len) <= all);
}

/// A pasted log: the same in one piece and byte by byte, and never much of it.
pub(crate) fn pasted_log(data: &[u8]) {
    // The encoding is decided by the first piece.
    let (start, rest) = data.split_at(data.len().min(256));
    let (mut whole, mut pieces) = (PastedLog::default(), PastedLog::default());
    whole.push(start);
    whole.push(rest);
    pieces.push(start);
    rest.chunks(1).for_each(|byte| pieces.push(byte));
    let (whole, pieces) = (whole.finish(), pieces.finish());
    // Figures that are no number differ from themselves.
    assert_eq!(format!("{whole:?}"), format!("{pieces:?}"));
    // Rates of other boots stand before the lines of one.
    assert!(whole.log.len() <= 2064 && whole.log.iter().all(|line| line.text.len() <= 3 * 4096));
    for line in &whole.log {
        if let LogEvent::Stated { by_s: Some(by_s), .. } = line.event {
            assert!(by_s.is_finite() && by_s >= 0.0, "{line:?}");
        }
    }
}

/// The manifest of a captured tree.
pub(crate) fn manifest(data: &[u8]) {
    let _ = Manifest::parse(&text(data));
}

/// What the scheduler counts, of all CPUs and of a thread.
pub(crate) fn running(data: &[u8]) {
    let text = text(data);
    let _ = running::parse_stat(&text);
    let _ = running::parse_schedstat(&text);
    let _ = running::parse_throttled(&text);
    let _ = running::throttling_files(&text);
}

/// adjtimex, the time keepers, chronyd's tracking.
pub(crate) fn steering(data: &[u8]) {
    let text = text(data);
    let _ = steering::parse_adjtimex(&text);
    let _ = steering::parse_keepers(&text);
    let _ = steering::parse_tracking(&text);
    let _ = steering::parse_offset_readers(&text);
    let _ = steering::chrony_config::parse(&settles(&text, steering::chrony_config::reduce));
}

/// Distribution, container, uptime, load, steal.
pub(crate) fn system(data: &[u8]) {
    let text = text(data);
    let _ = system::parse_container(&text);
    let _ = system::parse_uptime(&text);
    let _ = system::parse_booted_at(&text);
    let _ = system::parse_cpu_time(&text);
    let _ = system::parse_lines(&text);
    let _ = system::parse_distribution(&settles(&text, system::reduce_os_release));
    let _ = system::parse_loadavg(&settles(&text, system::reduce_loadavg));
    let uptime_s = system::parse_uptime(&text).value().copied();
    let _ = system::parse_steal(&settles(&text, system::reduce_stat), uptime_s);
}
