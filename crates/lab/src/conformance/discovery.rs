//! What the guest finds of its machine.

use guest::discovery::DiscoveredHypervisor;
use guest::source::Source;
use host::ClockProvider;

use super::subject::ConformanceSubject;
use crate::settings::Result;

/// CPUID gives whole kHz, and a page's scale has 32 bits.
const FREQUENCY_HZ: u64 = 1_000;

pub(super) fn discovered(subject: &ConformanceSubject<'_>) -> Result {
    let found = subject.machine.discover(0)?;
    let hypervisor = match subject.provider.kind() {
        ClockProvider::None | ClockProvider::Legacy => DiscoveredHypervisor::None,
        ClockProvider::Kvm => DiscoveredHypervisor::Kvm,
        ClockProvider::HyperV => DiscoveredHypervisor::HyperV,
        _ => DiscoveredHypervisor::Other,
    };
    let found_name = format!("{:?}", found.hypervisor);
    subject.equal("hypervisor detected by the guest", &format!("{hypervisor:?}"), &found_name);
    let timers = [Source::AcpiPm, Source::Hpet, Source::Rtc].map(|timer| found.has(timer));
    subject.holds(
        "timers detected by the guest",
        "PM timer, HPET, RTC",
        format!("{} of 3", timers.iter().filter(|found| **found).count()),
        timers == [true; 3],
    );
    if subject.provider.kind().has_cpuid() {
        let advertised_hz = subject.advertised_hz();
        let error_hz = found.tsc.0.abs_diff(advertised_hz);
        subject.holds(
            "TSC frequency detected by the guest",
            &format!("{advertised_hz} Hz, ± {FREQUENCY_HZ} Hz"),
            format!("{} Hz from {:?}", found.tsc.0, found.frequency_from),
            error_hz <= FREQUENCY_HZ,
        );
    }
    Ok(())
}
