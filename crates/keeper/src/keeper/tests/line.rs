//! When the frequency follows a VMClock page's line.

use super::*;

const RIGHT: Option<(i64, u64)> = Some((0, 1000));

fn settled(sources: &[(SourceKind, Option<(i64, u64)>)], corrector: Corrector) -> Bench {
    let mut bench = Bench::new(Policy { corrector, ..Policy::default() }, sources);
    (0..4).for_each(|_| drop(bench.sample(&[])));
    bench
}

#[test]
fn the_line_of_the_selected_page_is_followed_while_the_clock_is_right() {
    let mut bench = settled(&[(SourceKind::VmClock, RIGHT)], Corrector::Kernel);
    assert_eq!(bench.keeper.followed_line(bench.now_ns), Some(0));
    // Nothing else adjusts the frequency meanwhile.
    bench.keeper.note_line(bench.now_ns, 50_000.0);
    bench.offsets[0] = Some((50_000, 1000));
    for _ in 0..20 {
        let adjusted = bench.sample(&[]);
        assert!(!adjusted.iter().any(|action| matches!(action, Action::Discipline(_))));
    }
    // Off by what is slewed or stepped, it is not.
    bench.offsets[0] = Some((500 * MS, 1000));
    bench.keeper.sample(bench.now_ns + S / 2, &[]);
    let now_ns = bench.now_ns + S / 2;
    while let Some(action) = bench.keeper.next(now_ns) {
        let Action::Measure(sources) = action else { break };
        let offset = OffsetBound { offset_ns: 500 * MS, bound_ns: 1000, at_monotonic_ns: now_ns };
        sources.iter().for_each(|index| bench.keeper.measured(*index, now_ns, Some(offset)));
    }
    assert_eq!(bench.keeper.followed_line(now_ns), None);
}

#[test]
fn no_line_is_followed_beside_a_daemon_or_without_a_page() {
    let beside = settled(&[(SourceKind::VmClock, RIGHT)], Corrector::Beside);
    assert_eq!(beside.keeper.followed_line(beside.now_ns), None);
    let card = settled(&[(SourceKind::NetworkCard, RIGHT)], Corrector::Kernel);
    assert_eq!(card.keeper.followed_line(card.now_ns), None);
    // A page alone against two servers is a falseticker.
    let servers = (SourceKind::Ntp, Some((30 * MS, 100_000)));
    let liar = settled(&[(SourceKind::VmClock, RIGHT), servers, servers], Corrector::Kernel);
    assert_eq!(liar.keeper.followed_line(liar.now_ns), None);
}

/// The kernel begins a slew with its next second, and may end it two seconds late.
#[test]
fn no_line_is_followed_while_the_kernel_may_slew() {
    let mut bench = settled(&[(SourceKind::VmClock, RIGHT)], Corrector::Kernel);
    let by = crate::Adjustment { frequency_ppb: None, slew_ns: Some(MS) };
    bench.keeper.clock.discipline.note_adjustment(bench.now_ns, by);
    let end_ns = bench.now_ns + 4 * S;
    assert_eq!(bench.keeper.followed_line(end_ns - 1), None);
    assert_eq!(bench.keeper.followed_line(end_ns), Some(0));
}

/// A page that is 50 ppm off what was measured; and one whose word needs another's.
#[test]
fn a_line_sets_no_frequency_that_contradicts_what_was_measured() {
    let mut bench = settled(&[(SourceKind::VmClock, RIGHT)], Corrector::Kernel);
    assert!(bench.keeper.allows_line(50_000.0), "nothing is known");
    (0..40).for_each(|_| drop(bench.sample(&[])));
    assert!(bench.keeper.allows_line(10_500.0) && !bench.keeper.allows_line(50_000.0));
    let server = (SourceKind::Ntp, RIGHT);
    let three = Bench::new(Policy::default(), &[(SourceKind::VmClock, RIGHT), server, server]);
    assert!(!three.keeper.allows_line(0.0), "nothing is known");
}

/// The clock runs off by 20 ppm, and the look that was due is refused.
#[test]
fn a_line_that_is_left_puts_no_adjustment_off() {
    for leaves in [false, true] {
        let mut bench = settled(&[(SourceKind::VmClock, RIGHT)], Corrector::Kernel);
        bench.keeper.note_line(bench.now_ns, 0.0);
        if leaves {
            bench.keeper.leave_line(bench.now_ns);
        }
        let mut is_adjusted = false;
        for _ in 0..20 {
            bench.move_by(10_000);
            let done = bench.sample(&[]);
            is_adjusted |= done.iter().any(|action| matches!(action, Action::Discipline(_)));
        }
        assert_eq!(is_adjusted, leaves);
    }
}

/// A jump below the tolerance is nothing that is corrected as such, and no rate is known after it.
#[test]
fn a_clock_that_was_moved_is_slewed_before_its_rate_is_known() {
    let mut bench = settled(&[(SourceKind::VmClock, RIGHT)], Corrector::Kernel);
    bench.keeper.note_line(bench.now_ns, 0.0);
    bench.move_by(-999_000);
    bench.keeper.leave_line(bench.now_ns);
    let moved = disruption(Kind::SnapshotRestored, bench.now_ns, 0.0);
    let done = [bench.sample(&[moved]), bench.sample(&[])].concat();
    let slew_ns = done.iter().find_map(|action| match action {
        Action::Discipline(adjustment) => adjustment.slew_ns,
        _ => None,
    });
    assert_eq!(slew_ns, Some(-999_000), "{done:?}");
}
