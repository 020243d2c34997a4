//! arm64's counter: there is no other clock source to choose, so what can go
//! wrong is the counter itself.

use facts::kernel::LogEvent;
use instruments::figures;

use crate::case::{Case, log_evidence};
use crate::finding::{Finding, Remedy, Severity};
use crate::rule::{Check, Outcome};

/// Beyond this the frequencies differ: no two that boards use are closer.
const SAME_PPM: f64 = 100.0;

/// The kernel's log rounds to two digits of MHz.
const LOG_ROUNDED_HZ: f64 = 5_000.0;

/// `counter-frequency`
pub(crate) fn check_frequency(case: &Case<'_>) -> Check {
    let timer = case.generic_timer()?;
    if timer.hz == 0 {
        return Outcome::fine(
            "the firmware sets no frequency in CNTFRQ_EL0: the device tree gives it",
        );
    }
    let now_hz = timer.hz as f64;
    let off_ppm = |then_hz: f64| (now_hz / then_hz - 1.0) * 1e6;
    let logged = |event: &LogEvent| matches!(event, LogEvent::CounterFrequency { .. });
    let line = case.logged(logged).last();
    let booted_hz = line.and_then(|line| match line.event {
        LogEvent::CounterFrequency { hz } => Some(hz as f64),
        _ => None,
    });
    // Under this source CLOCK_MONOTONIC_RAW is the counter by the frequency that
    // the kernel took at boot.
    let assumed = case.measured().ok().and_then(|measured| measured.tsc_rate);
    let assumed = assumed.filter(|_| case.current() == Ok("arch_sys_counter"));
    let by_log = booted_hz.filter(|hz| (now_hz - hz).abs() > LOG_ROUNDED_HZ + hz * SAME_PPM / 1e6);
    let by_clock = assumed.filter(|rate| off_ppm(rate.hz).abs() > SAME_PPM + rate.bound_ppm);
    let Some(then_hz) = by_clock.map(|rate| rate.hz).or(by_log) else {
        return Outcome::fine(format!("{}, now as at boot", figures::hz(now_hz)));
    };
    let mut finding = Finding::new(
        Severity::Error,
        format!(
            "The counter's frequency is {}, but the kernel assumes {}",
            figures::hz(now_hz),
            figures::hz(then_hz)
        ),
    )
    .evidence(format!("CNTFRQ_EL0, now: {}", figures::hz(now_hz)))
    .evidence_from(line.map(log_evidence));
    if let Some(rate) = assumed {
        let hz = figures::hz(rate.hz);
        finding = finding.evidence(format!("measured by CLOCK_MONOTONIC_RAW: {hz}"));
    }
    // The kernel's PLL holds MAXFREQ; chronyd sets the tick as well, by 10 % at most
    // (`maxdrift` in doc/chrony.conf.adoc).
    let daemons = match off_ppm(then_hz).abs() {
        ..=500.0 => {
            "A time daemon can correct the clock, but not programs that read the counter \
             themselves."
        }
        ..=100_000.0 => {
            "Daemons that correct by the kernel's PLL, such as ntpd, can correct 500 ppm, which is \
             less than this; chronyd can correct up to 100 000 ppm, by changing the tick length."
        }
        _ => {
            "No time daemon can correct that: chronyd's limit is 100 000 ppm, that of others 500 \
             ppm."
        }
    };
    // Time by the clock is the ticks over the assumed rate.
    let in_300_s = 300.0 * (1.0 + off_ppm(then_hz) / 1e6);
    finding
        .explain(format!(
            "The kernel reads the frequency once, at boot. Since then this machine was moved to, \
             or restored on, a host with another frequency: the clock counts {in_300_s:.2} s in \
             300 s, and every timer is off by the same ratio. {daemons}"
        ))
        .remedy(Remedy::advice("Reboot this machine: the kernel then reads this host's frequency."))
        .remedy(Remedy::advice(
            "Move and restore machines only between hosts of one counter frequency: arm64 cannot \
             scale the counter.",
        ))
        .alone()
}

#[cfg(test)]
mod tests {
    use facts::Fact;
    use facts::cpu::GenericTimer;
    use facts::kernel::LogLine;
    use instruments::measurements::{Measurements, TscRate};

    use super::*;
    use crate::testing::healthy_kvm_guest;

    /// What the rule says of a counter that was logged and is now stated so.
    fn check_counter(logged_hz: u64, now_hz: u64, assumed_hz: Option<f64>) -> Check {
        let mut facts = healthy_kvm_guest();
        let timer = GenericTimer { hz: now_hz, readable: true, self_synchronised: false };
        facts.cpu.generic_timer = Fact::Known(timer);
        facts.clocksources.current = Fact::Known("arch_sys_counter".into());
        let event = LogEvent::CounterFrequency { hz: logged_hz };
        let text = "arch_timer: cp15 timer running at".into();
        facts.kernel.log = Fact::Known(vec![LogLine { at_s: Some(0.0), text, event }]);
        let tsc_rate = assumed_hz.map(|hz| TscRate { hz, bound_ppm: 5.0, over_s: 1.0 });
        let measurements = Measurements { tsc_rate, ..Measurements::default() };
        check_frequency(&Case::new(&facts, Some(&measurements)))
    }

    #[test]
    fn a_changed_frequency_is_found_by_log_and_by_clock() {
        // 62.50 MHz is what the log shows of 62.5; 24 MHz were 19.2 at boot.
        for (logged, now, assumed) in [
            (62_500_000, 62_500_000, None),
            (24_580_000, 24_576_000, Some(24_576_010.0)),
            (1, 0, None),
        ] {
            assert!(matches!(check_counter(logged, now, assumed), Ok(Outcome::Fine(_))), "{now}");
        }
        for (logged, now, assumed) in
            [(19_200_000, 24_000_000, None), (24_000_000, 24_000_000, Some(25_000_000.0))]
        {
            let Ok(Outcome::Found(found)) = check_counter(logged, now, assumed) else {
                panic!("{now}")
            };
            assert_eq!((found.len(), found[0].severity), (1, Severity::Error));
        }
        let Ok(Outcome::Found(found)) = check_counter(19_200_000, 24_000_000, None) else {
            panic!()
        };
        assert!(found[0].why.contains("375.00 s in 300 s"), "{}", found[0].why);
        for (now_hz, says) in [
            (24_005_000, "can correct the clock"),
            (24_550_000, "chronyd can correct up to 100 000 ppm"),
            (30_000_000, "No time daemon can correct that"),
        ] {
            let Ok(Outcome::Found(found)) = check_counter(24_000_000, now_hz, Some(24_000_000.0))
            else {
                panic!("{now_hz}")
            };
            assert!(found[0].why.contains(says), "{}", found[0].why);
        }
    }
}
