//! Hyper-V's reference time: MSRs, counter and page.

use std::time::Duration;

use guest::layout::GuestPages;
use guest::source::Source;
use host::HostEvent;
use host::msr::{
    HV_APIC_FREQUENCY, HV_GUEST_OS_ID, HV_REENLIGHTENMENT_CONTROL, HV_REFERENCE_TSC,
    HV_TIME_REF_COUNT, HV_TSC_EMULATION_STATUS, HV_TSC_FREQUENCY, HV_VP_INDEX,
};
use host::pages::ReferencePage;
use pvclock::ReadError;
use pvclock::hyperv::{ReferenceInfo, ReferenceReader};

use super::setting;
use super::subject::{ConformanceSample, ConformanceSubject};
use crate::settings::Result;
use crate::tsc_offsets::why_per_vcpu;

const UNIT_NS: u64 = 100;
/// Readings of each comparison.
const READINGS: usize = 200;
/// The tolerance of hyperv_clock, counter against TSC.
const RATE: f64 = 0.01;

fn page_of<'s>(subject: &'s ConformanceSubject<'_>) -> &'s ReferencePage {
    subject.page(GuestPages::reference_address())
}

/// A page's sequence, or why it cannot be read.
pub(super) fn describe(info: &std::result::Result<ReferenceInfo, ReadError>) -> String {
    match info {
        Ok(info) => format!("sequence {}", info.sequence),
        Err(error) => error.to_string(),
    }
}

pub(super) fn announcement(subject: &ConformanceSubject<'_>) -> Result {
    subject.equal("signature", "Microsoft Hv", &subject.signature()?);
    let [interface, ..] = subject.cpuid(0x4000_0001)?;
    let is_hv1 = interface.to_le_bytes() == *b"Hv#1";
    subject.holds("interface", "Hv#1", format!("{interface:#x}"), is_hv1);
    Ok(())
}

pub(super) fn os_id_first(subject: &ConformanceSubject<'_>) -> Result {
    let id = subject.read_msr(HV_GUEST_OS_ID)?;
    let page = GuestPages::reference_address() | 1;
    subject.write_msr(HV_GUEST_OS_ID, 0)?;
    let off = subject.read_msr(HV_REFERENCE_TSC)?;
    let refused = subject.refuses_write(HV_REFERENCE_TSC, page)?;
    subject.write_msr(HV_GUEST_OS_ID, id)?;
    subject.write_msr(HV_REFERENCE_TSC, page)?;
    subject.holds(
        "guest OS id set to 0",
        "disables the page",
        format!("the page's MSR reads {off:#x}"),
        off & 1 == 0,
    );
    // Linux 6.1 enables it before it has written its id, and KVM lets it.
    subject.holds(
        "page without a guest OS id",
        "accepted, as KVM accepts it",
        if refused { "refused" } else { "accepted" },
        !refused,
    );
    Ok(())
}

pub(super) fn frequencies(subject: &ConformanceSubject<'_>) -> Result {
    let advertised = format!("{} Hz", subject.advertised_hz());
    let tsc_hz = subject.read_msr(HV_TSC_FREQUENCY)?;
    subject.equal("TSC frequency MSR", &advertised, &format!("{tsc_hz} Hz"));
    let apic_hz = subject.read_msr(HV_APIC_FREQUENCY)?;
    subject.holds("APIC frequency MSR", "not 0", format!("{apic_hz} Hz"), apic_hz != 0);
    match off_on_this_host(subject)? {
        Some(why) => subject.not_measured("TSC scale of the page", &advertised, &why),
        None => {
            let info = ReferenceReader::new(page_of(subject)).info().ok();
            let page_hz = info.and_then(|info| info.scale.to_hertz()).map_or(0, |rate| rate.0);
            // KVM makes it of kvm-clock's 32 bits (compute_tsc_page_parameters).
            let bound = if subject.is_own() { 0.0 } else { 1e-9 };
            let error = page_hz as f64 / subject.advertised_hz() as f64 - 1.0;
            let expected = format!("{advertised}, ± {} ppb", bound * 1e9);
            let found = format!("{page_hz} Hz");
            subject.holds("TSC scale of the page", &expected, found, error.abs() <= bound);
        }
    }
    let writes = [HV_TIME_REF_COUNT, HV_TSC_FREQUENCY, HV_APIC_FREQUENCY].map(|msr| (msr, 1));
    subject.all_refused("writes to read-only MSRs", &writes)
}

/// Why the page is off where it is right to be: without a master clock
/// (kvm_hv_setup_tsc_page, arch/x86/kvm/hyperv.c). That our provider has none for a
/// reason of the host, the host itself must show.
pub(super) fn off_on_this_host(subject: &ConformanceSubject<'_>) -> Result<Option<String>> {
    let info = ReferenceReader::new(page_of(subject)).info();
    if info != Err(ReadError::SwitchedOff { version: 0 }) {
        return Ok(None);
    }
    let why = if subject.is_own() {
        why_per_vcpu(&subject.machine)?
    } else {
        Some("KVM has no master clock on this host")
    };
    Ok(why.map(|why| format!("the page is off: {why}")))
}

/// Whether it is; if so, `name` is not measured.
pub(super) fn is_off(subject: &ConformanceSubject<'_>, name: &str, expected: &str) -> Result<bool> {
    let why = off_on_this_host(subject)?;
    if let Some(why) = &why {
        subject.not_measured(name, expected, why);
    }
    Ok(why.is_some())
}

pub(super) fn page(subject: &ConformanceSubject<'_>) -> Result {
    subject.reads_back("page's MSR", HV_REFERENCE_TSC, GuestPages::reference_address() | 1)?;
    let (name, expected) = ("page", "sequence neither 0 nor 0xffffffff");
    if is_off(subject, name, expected)? {
        return Ok(());
    }
    let info = ReferenceReader::new(page_of(subject)).info();
    subject.holds(name, expected, describe(&info), info.is_ok());
    Ok(())
}

/// What the counter counted since `first`, and the least and the most that
/// passed by the TSC: each reading lies between its two TSCs. All in ns.
pub(super) fn counted_since(
    subject: &ConformanceSubject<'_>,
    first: &ConformanceSample,
) -> Result<[f64; 3]> {
    let last = subject.read(0, Source::HyperVCounter)?;
    let ns =
        |from: u64, to: u64| to.wrapping_sub(from) as f64 * 1e9 / subject.advertised_hz() as f64;
    let counted_ns = last.time_ns.wrapping_sub(first.time_ns) as f64;
    Ok([counted_ns, ns(first.tsc_after, last.tsc_before), ns(first.tsc_before, last.tsc_after)])
}

/// By the advertised frequency, over 200 exits.
pub(super) fn counter_against_tsc(subject: &ConformanceSubject<'_>) -> Result {
    let first = subject.read(0, Source::HyperVCounter)?;
    for _ in 0..READINGS {
        subject.read(0, Source::HyperVCounter)?;
    }
    let [counted, least_ns, most_ns] = counted_since(subject, &first)?;
    let holds = (least_ns * (1.0 - RATE)..=most_ns * (1.0 + RATE)).contains(&counted);
    subject.record(
        "counter against TSC",
        "advances by the TSC's time between two readings, ± 1 %",
        format!("{counted} ns; the TSC advanced by {least_ns:.0} to {most_ns:.0} ns"),
        subject.by_tsc(holds)?,
    );
    Ok(())
}

/// Between two readings: in 200 of them a page 1 ppm off is 200 ns off.
const BETWEEN: Duration = Duration::from_millis(1);

/// The counter, in units of 100 ns, is at least the page's time at the TSC
/// before it was read, and at most the page's time at the TSC after.
pub(super) fn counter_against_page(subject: &ConformanceSubject<'_>) -> Result {
    let name = "counter against page";
    let expected = "between the page's time before and after, ± 100 ns";
    if is_off(subject, name, expected)? {
        return Ok(());
    }
    let mut outside = 0;
    let mut worst_ns = 0;
    let mut narrowest_ns = u64::MAX;
    for index in 0..READINGS {
        let vcpu = index % subject.machine.vcpus();
        std::thread::sleep(BETWEEN);
        let reading = subject.read(vcpu, Source::HyperVCounter)?;
        let reader = ReferenceReader::new(page_of(subject));
        let at = |tsc: u64| reader.units_100ns(&move || tsc).map(|units| units * UNIT_NS);
        let (Ok(before), Ok(after)) = (at(reading.tsc_before), at(reading.tsc_after)) else {
            outside += 1;
            continue;
        };
        narrowest_ns = narrowest_ns.min(after.saturating_sub(before));
        let error_ns =
            before.saturating_sub(reading.time_ns).max(reading.time_ns.saturating_sub(after));
        worst_ns = worst_ns.max(error_ns);
        outside += usize::from(error_ns > UNIT_NS);
    }
    subject.holds(
        name,
        expected,
        format!(
            "{outside} of {READINGS} readings outside, by at most {worst_ns} ns; the narrowest \
             interval was {narrowest_ns} ns"
        ),
        outside == 0,
    );
    Ok(())
}

/// When the host's clocksource is no longer the TSC the page has sequence 0,
/// and the counter continues.
pub(super) fn page_off(subject: &ConformanceSubject<'_>) -> Result {
    if is_off(subject, "page while the host's clocksource is not the TSC", "sequence 0")? {
        return Ok(());
    }
    let is_tsc = |is_tsc| subject.machine.notify(HostEvent::HostClocksource { is_tsc });
    let reader = ReferenceReader::new(page_of(subject));
    let before = reader.info();
    let counted = subject.read(0, Source::HyperVCounter)?;
    is_tsc(false);
    let off = reader.info();
    let counted_on = subject.read(0, Source::HyperVCounter)?;
    is_tsc(true);
    let after = reader.info();
    let counted_after = subject.read(0, Source::HyperVCounter)?;
    subject.holds(
        "page while the host's clocksource is not the TSC",
        "sequence 0",
        describe(&off),
        off == Err(ReadError::SwitchedOff { version: 0 }),
    );
    let times = [counted.time_ns, counted_on.time_ns, counted_after.time_ns];
    let passed = |from: &ConformanceSample, to: &ConformanceSample| {
        let cycles = to.tsc_after.wrapping_sub(from.tsc_before);
        (cycles as f64 * 1e9 / subject.advertised_hz() as f64) as u64 + 10_000
    };
    subject.holds(
        "counter while the page is invalid, and after",
        "advances by at most the TSC's time plus 10 µs",
        format!("{times:?} ns"),
        times.is_sorted()
            && times[1] - times[0] <= passed(&counted, &counted_on)
            && times[2] - times[1] <= passed(&counted_on, &counted_after),
    );
    let another = matches!((before, after), (Ok(old), Ok(new)) if old.sequence != new.sequence);
    subject.holds(
        "page once the clocksource is the TSC again",
        "valid, with a new sequence",
        describe(&after),
        another,
    );
    Ok(())
}

/// The page is rewritten and agrees with the counter.
pub(super) fn clock_set(subject: &ConformanceSubject<'_>) -> Result {
    let expected = "page rewritten; guest's time between the host's readings before and after";
    // The counter and the page are whole units, which KVM's own clock is not.
    let slack = if subject.is_own() { 0 } else { UNIT_NS };
    for set_s in setting::SET_S {
        let name = format!("clock set to {set_s} s");
        if is_off(subject, &name, expected)? {
            continue;
        }
        let clock = set_s * 1_000_000_000;
        let old = ReferenceReader::new(page_of(subject)).info();
        setting::set(subject, clock)?;
        subject.reenter_all()?;
        let before = setting::host_ns(subject)?;
        let guest = subject.read(0, Source::HyperVPage)?.time_ns;
        let after = setting::host_ns(subject)?;
        let new = ReferenceReader::new(page_of(subject)).info();
        subject.holds(
            &name,
            expected,
            format!("guest {guest} ns, host {before} ns before and {after} ns after"),
            old != new
                && (before.saturating_sub(slack)..=after + slack).contains(&guest)
                && guest.wrapping_sub(clock.saturating_sub(slack)) < setting::SOON_NS,
        );
    }
    Ok(())
}

pub(super) fn reserved_bits(subject: &ConformanceSubject<'_>) -> Result {
    let kept = GuestPages::reference_address() | 0xfff;
    subject.write_msr(HV_REFERENCE_TSC, kept)?;
    subject.reads_back("page's reserved bits", HV_REFERENCE_TSC, kept)?;
    subject.write_msr(HV_REFERENCE_TSC, GuestPages::reference_address() | 1)?;
    let control = (8..16).chain(17..32).map(|bit| (HV_REENLIGHTENMENT_CONTROL, 1 << bit));
    let control: Vec<_> = control.collect();
    subject.all_refused("re-enlightenment's reserved bits", &control)?;
    Ok(())
}

pub(super) fn host_s_own(subject: &ConformanceSubject<'_>) -> Result {
    let status = [(HV_TSC_EMULATION_STATUS, 1), (HV_TSC_EMULATION_STATUS, u64::MAX)];
    subject.all_refused("write to the emulation status MSR", &status)?;
    subject.all_refused("write to the VP index MSR", &[(HV_VP_INDEX, 1)])
}
