//! The stock kernel's clocks, as `parachron` reports them.

use serde_json::Value;

use super::{Check, Outputs, list};

/// The sources of this machine model, the kernel's choice first; and whether
/// reading them enters the kernel.
pub(crate) const SOURCES: &[(&str, bool)] = &[("tsc", false), ("hpet", true), ("acpi_pm", true)];

/// Rules of the doctor that must fire on the TSC, and that must not.
const ON_TSC: (&[&str], &[&str]) =
    (&["software-emulation"], &["slow-clocksource", "rtc-missing", "rtc-off", "kvm-host-clock"]);
/// The same on a timer.
const ON_TIMER: (&[&str], &[&str]) =
    (&["software-emulation", "slow-clocksource", "kvm-host-clock"], &["rtc-missing", "rtc-off"]);

/// The call on which every clock source is compared.
const CALL: &str = "clock_gettime(CLOCK_MONOTONIC)";

/// The TSC's frequency by hpet and by acpi_pm may differ by this much more
/// than the bounds that the instrument states. Both count one clock of QEMU's; the
/// kernel's whole-number scales for them add far less.
const SLACK_PPM: f64 = 10.0;

pub(super) fn all(outputs: Outputs<'_>) -> Vec<Check> {
    let mut checks = vec![sources_are_offered(outputs)];
    for &(source, _) in SOURCES {
        checks.push(doctor_on(outputs, source));
    }
    let bench = outputs.json("bench");
    for &(source, enters) in SOURCES {
        checks.push(reads(&bench, source, enters));
        checks.push(order(&bench, source));
    }
    checks.push(tsc_by_two_timers(&bench));
    checks.push(Check::of(
        "bench leaves the clock source it found",
        outputs.stdout("source-after"),
        |name| (name.to_owned(), name == "tsc"),
    ));
    checks
}

/// `clocks` lists exactly the machine's sources.
fn sources_are_offered(outputs: Outputs<'_>) -> Check {
    Check::of("clocks: tsc, hpet and acpi_pm are offered", outputs.json("clocks"), |clocks| {
        let found = words(&clocks["available"]["known"], |name| name.as_str());
        let passed = found.len() == SOURCES.len()
            && SOURCES.iter().all(|(source, _)| found.contains(source));
        (found.join(", "), passed)
    })
}

/// The doctor detects the emulation, accepts the RTC, and knows which sources
/// are slow and keep KVM from its master clock.
fn doctor_on(outputs: Outputs<'_>, source: &str) -> Check {
    let (record, (must, must_not)) = match source {
        "tsc" => ("doctor".to_owned(), ON_TSC),
        slow => (format!("doctor-{slow}"), ON_TIMER),
    };
    let what =
        format!("doctor on {source}: finds {}, not {}", must.join(", "), must_not.join(", "));
    Check::of(&what, outputs.json(&record), |report| {
        let rules = words(&report["diagnosis"]["findings"], |finding| finding["rule"].as_str());
        let has = |rule: &&str| rules.contains(rule);
        (format!("finds {}", rules.join(", ")), must.iter().all(has) && !must_not.iter().any(has))
    })
}

/// A word of each item of a list.
fn words(items: &Value, word: impl Fn(&Value) -> Option<&str>) -> Vec<&str> {
    list(items).iter().filter_map(word).collect()
}

/// The run of `bench` under a source.
pub(crate) fn run<'a>(bench: &'a Result<Value, String>, source: &str) -> Result<&'a Value, String> {
    let runs = list(&bench.as_ref().map_err(Clone::clone)?["runs"]);
    let run = runs.iter().find(|run| run["clocksource"] == source);
    run.ok_or_else(|| format!("no run under {source}"))
}

/// The cost of a call in a run.
pub(crate) fn cost<'a>(run: &'a Value, call: &str) -> Option<&'a Value> {
    list(&run["costs"]).iter().find(|cost| cost["call"] == call)
}

/// Reading enters the kernel always or never, depending on the source.
fn reads(bench: &Result<Value, String>, source: &str, enters: bool) -> Check {
    let how = if enters { "each read enters the kernel" } else { "no read enters the kernel" };
    Check::of(&format!("bench on {source}: {how}"), run(bench, source), |run| {
        let costs = run.get("costs").and_then(Value::as_array).into_iter().flatten();
        let cost = costs.into_iter().find(|c| c.get("call").and_then(Value::as_str) == Some(CALL));
        let number = |path: &str| cost.and_then(|cost| cost.pointer(path)).and_then(Value::as_u64);
        let (Some(calls), Some(entered)) = (number("/path/calls"), number("/path/entered")) else {
            return (format!("{CALL}: not counted"), false);
        };
        let expected = if enters { calls } else { 0 };
        (format!("{entered} of {calls} {CALL}"), calls > 0 && entered == expected)
    })
}

/// No clock steps back.
fn order(bench: &Result<Value, String>, source: &str) -> Check {
    Check::of(&format!("bench on {source}: no clock steps back"), run(bench, source), |run| {
        let clocks = list(&run["order"]);
        let sum = |key: &str| clocks.iter().filter_map(|clock| clock[key].as_u64()).sum::<u64>();
        let (readings, backward) = (sum("readings"), sum("backward"));
        let found = format!("{backward} of {readings} readings of {} clocks", clocks.len());
        (found, readings > 0 && backward == 0)
    })
}

/// hpet and acpi_pm, two separate devices, give the same TSC frequency.
fn tsc_by_two_timers(bench: &Result<Value, String>) -> Check {
    let what = format!(
        "the TSC's frequency by hpet and by acpi_pm agrees within their bounds + {SLACK_PPM} ppm"
    );
    let rate = |source| -> Result<(f64, f64), String> {
        let rate = &run(bench, source)?["tsc_rate"];
        let found = rate["hz"].as_f64().zip(rate["bound_ppm"].as_f64());
        found.ok_or_else(|| format!("no tsc_rate under {source}"))
    };
    let both = rate("hpet").and_then(|hpet| Ok((hpet, rate("acpi_pm")?)));
    Check::of(&what, both, |((hpet_hz, hpet_ppm), (pm_hz, pm_ppm))| {
        let difference_ppm = (hpet_hz - pm_hz).abs() / hpet_hz * 1e6;
        let found = format!(
            "{hpet_hz:.0} Hz ± {hpet_ppm:.1} ppm and {pm_hz:.0} Hz ± {pm_ppm:.1} ppm: \
             {difference_ppm:.2} ppm difference"
        );
        (found, difference_ppm <= hpet_ppm + pm_ppm + SLACK_PPM)
    })
}
