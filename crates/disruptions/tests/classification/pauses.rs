//! Pauses of random lengths at random moments, by what runs on meanwhile.

use disruptions::{Kind, Kinds};
use proptest::prelude::*;

use crate::simulated::{DAY, MS, Machine, Running, S, Source};
use crate::{assert_behind, assert_size, only_disruption, source};

const PAUSED_OR_RTC_SET: Kinds = Kinds::any_of(&[Kind::Pause, Kind::RtcSet]);

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// The host stopped the virtual CPUs and no clock: no step, no steal, a
    /// late sample on a machine that did nothing meanwhile.
    #[test]
    fn a_pause_in_which_all_clocks_run(
        kvm_clock: bool,
        has_page: bool,
        has_rtc: bool,
        part in 0.0..1.0f64,
        for_ns in 1300 * MS..3600 * S,
    ) {
        let source = if kvm_clock { Source::KvmClock } else { Source::Tsc };
        let mut machine = Machine::new(source, has_rtc, DAY / 3);
        if !has_page && !kvm_clock {
            machine = machine.without_page();
        }
        let found = only_disruption(machine, part, |machine| machine.pause(for_ns, Running::All));
        prop_assert_eq!(found.kinds, Kind::Pause.into());
        assert_size(&found, for_ns as f64);
    }

    /// QEMU's stop and cont on KVM: the TSC runs, kvm-clock stops.
    #[test]
    fn a_pause_in_which_the_source_stops(
        source in prop_oneof![Just(Source::KvmClock), Just(Source::Hpet)],
        has_rtc: bool,
        flagged: bool,
        part in 0.0..1.0f64,
        for_ns in 200 * MS..3600 * S,
    ) {
        let machine = Machine::new(source, has_rtc, DAY / 3);
        let found = only_disruption(machine, part, |machine| {
            machine.pause(for_ns, Running::Tsc);
            if flagged {
                machine.guest_was_stopped();
            }
        });
        prop_assert_eq!(found.kinds, Kind::Pause.into());
        assert_size(&found, for_ns as f64);
        assert_behind(&found, for_ns as f64);
    }

    /// The same without a page: QEMU's emulation never sets its TSC back, and
    /// `loadvm` looks as this does.
    #[test]
    fn a_source_that_stops_without_a_page_may_have_been_restored(
        has_rtc: bool,
        part in 0.0..1.0f64,
        for_ns in 200 * MS..3600 * S,
    ) {
        let machine = Machine::new(Source::Hpet, has_rtc, DAY / 3).without_page().without_vmclock();
        let found = only_disruption(machine, part, |machine| machine.pause(for_ns, Running::Tsc));
        let kinds: Vec<_> = found.kinds.iter().collect();
        prop_assert_eq!(kinds, [Kind::Pause, Kind::SnapshotRestored, Kind::Migrated]);
        assert_size(&found, for_ns as f64);
        assert_behind(&found, for_ns as f64);
    }

    /// The same under clocksource tsc: only the page stops.
    #[test]
    fn a_pause_in_which_the_page_stops(
        has_rtc: bool,
        part in 0.0..1.0f64,
        for_ns in 400 * MS..3600 * S,
    ) {
        let machine = Machine::new(Source::Tsc, has_rtc, DAY / 3);
        let found = only_disruption(machine, part, |machine| machine.pause(for_ns, Running::Tsc));
        prop_assert_eq!(found.kinds, Kind::Pause.into());
        assert_size(&found, for_ns as f64);
    }

    /// Only the RTC shows it, which may have been set as well.
    #[test]
    fn a_pause_in_which_no_counter_runs(
        source in source(),
        part in 0.0..1.0f64,
        for_ns in 2100 * MS..3600 * S,
    ) {
        let machine = Machine::new(source, true, DAY / 3);
        let found = only_disruption(machine, part, |machine| machine.pause(for_ns, Running::Nothing));
        prop_assert_eq!(found.kinds, PAUSED_OR_RTC_SET);
        assert_size(&found, for_ns as f64);
        assert_behind(&found, for_ns as f64);
    }

    /// The same, and the timer did not stop to the nanosecond.
    #[test]
    fn a_pause_in_which_a_counter_hardly_runs(
        part in 0.0..1.0f64,
        for_ns in 2100 * MS..3600 * S,
        ahead_ns in 0..10 * MS,
    ) {
        let machine = Machine::new(Source::Hpet, true, DAY / 3).without_page();
        let found = only_disruption(machine, part, |machine| {
            machine.pause(for_ns, Running::Nothing);
            machine.hpet_resumes_ahead(ahead_ns);
        });
        // A timer that was a millisecond ahead was seen: an RTC that is set moves none.
        let alone = ahead_ns < MS && found.kinds == PAUSED_OR_RTC_SET;
        prop_assert!(alone || found.kinds == Kind::Pause.into(), "{found:#?}");
        assert_size(&found, for_ns as f64);
        assert_behind(&found, for_ns as f64);
    }

    /// A suspended host whose TSC restarts: the page shows it.
    #[test]
    fn a_pause_in_which_the_page_runs(
        part in 0.0..1.0f64,
        has_rtc: bool,
        for_ns in S..3600 * S,
    ) {
        let machine = Machine::new(Source::Tsc, has_rtc, DAY / 3);
        let found = only_disruption(machine, part, |machine| machine.pause(for_ns, Running::Host));
        prop_assert_eq!(found.kinds, Kind::Pause.into());
        assert_size(&found, for_ns as f64);
        assert_behind(&found, for_ns as f64);
    }
}
