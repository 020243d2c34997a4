use std::time::Duration;

use instruments::measurements::ReadPath;

use super::quick;

#[test]
fn a_quick_measurement_has_every_part_or_the_reason() {
    let found = quick(Duration::from_millis(100), &|_| ());
    let missed = |what: &str| found.not_measured.iter().any(|missing| missing.what.contains(what));
    // A container may hide it.
    let file = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    let current = std::fs::read_to_string(file).ok();
    assert_eq!(found.clocksource.as_deref(), current.as_deref().map(str::trim));
    assert!(
        found.tsc_rate.is_some() || missed(&format!("{} rate", linux::counter::NAME)),
        "{found:?}"
    );
    assert!(!found.skews.is_empty() || missed("CPU"), "{found:?}");
    let monotonic = found.costs.iter().find(|c| c.call == "clock_gettime(CLOCK_MONOTONIC)");
    let monotonic = monotonic.expect("every Linux has it");
    assert!(monotonic.ns.min <= monotonic.ns.median && monotonic.ns.median <= monotonic.ns.max);
    assert!(monotonic.ns.median > 0.0 && monotonic.samples > 0, "{monotonic:?}");
    assert_eq!(monotonic.histogram.iter().map(|bin| bin.1).sum::<u64>(), monotonic.samples);
    if !missed("enter the kernel") {
        assert!(matches!(monotonic.path, ReadPath::Counted { calls: 1000, .. }));
    }
    assert!(found.order.iter().any(|order| order.clock == "CLOCK_MONOTONIC"));
}
