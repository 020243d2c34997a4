use super::*;

/// What bounds the error without a segment.
fn error_ns(
    bound: &BoundSource,
    now_ns: u64,
    host: Option<VmClockBound>,
    settings_ns: Option<u64>,
) -> Option<(u64, ErrorFrom)> {
    bound.error_ns(now_ns, host, None, settings_ns)
}

const NOW: u64 = 1_000_000;

fn timex(bound: &mut BoundSource, max_error_ns: u64, synchronised: bool) {
    bound.update_timex(TimexBound { max_error_ns, synchronised }, NOW);
}

fn host(error_ns: Option<u64>) -> Option<VmClockBound> {
    Some(VmClockBound { identity: (1, 1), error_ns })
}

#[test]
fn the_tighter_of_daemon_and_host_is_taken_and_nobody_means_unbounded() {
    let mut bound = BoundSource::new();
    assert_eq!(error_ns(&bound, NOW, None, None), None);
    timex(&mut bound, 900, true);
    assert_eq!(error_ns(&bound, NOW, host(Some(70)), None), Some((70, ErrorFrom::Host)));
    assert_eq!(error_ns(&bound, NOW, host(None), None), Some((901, ErrorFrom::Kernel)));
    // Two seconds later: 500 ppm of them more.
    let later = error_ns(&bound, NOW + 2_000_000_000, None, None);
    assert_eq!(later, Some((1_000_901, ErrorFrom::Kernel)));
    timex(&mut bound, 60, true);
    assert_eq!(error_ns(&bound, NOW, host(Some(70)), None), Some((61, ErrorFrom::Kernel)));
    timex(&mut bound, 900, false);
    assert_eq!(error_ns(&bound, NOW, None, None), None);
    assert_eq!(error_ns(&bound, NOW, None, Some(5_000)), Some((5_000, ErrorFrom::Settings)));
}

#[test]
fn after_a_disruption_the_daemon_is_believed_when_it_has_acted() {
    let mut bound = BoundSource::new();
    timex(&mut bound, 1_000, true);
    bound.disrupt(NOW);
    assert_eq!(error_ns(&bound, NOW, None, None), None);
    // It acted before the disruption, unseen.
    timex(&mut bound, 900, true);
    assert_eq!(error_ns(&bound, NOW, None, None), None);
    timex(&mut bound, 1_400, true);
    assert_eq!(error_ns(&bound, NOW, host(Some(70)), None), Some((70, ErrorFrom::Host)));
    timex(&mut bound, 800, true);
    assert_eq!(error_ns(&bound, NOW, None, None), Some((801, ErrorFrom::Kernel)));
    timex(&mut bound, 1_300, true);
    assert_eq!(error_ns(&bound, NOW, None, None), Some((1_301, ErrorFrom::Kernel)));
}

/// The kernel counts the clock as not synchronised from then on.
#[test]
fn when_somebody_sets_the_time_what_was_said_before_ends() {
    let mut bound = BoundSource::new();
    timex(&mut bound, 900, true);
    bound.step(NOW + 10);
    assert_eq!(error_ns(&bound, NOW, None, None), None);
    timex(&mut bound, 16_000_000_000, false);
    assert_eq!(error_ns(&bound, NOW, None, None), None);
}

#[test]
fn a_segment_counts_once_its_daemon_has_noticed_a_disruption() {
    let segment = |as_of_ns, disruption_marker| {
        Some(SegmentSource { error_ns: 50, as_of_ns, disruption_marker })
    };
    let mut bound = BoundSource::new();
    let published = Some((50, ErrorFrom::ClockBound));
    timex(&mut bound, 900, true);
    assert_eq!(bound.error_ns(NOW, None, segment(NOW, None), None), published);
    assert_eq!(bound.error_ns(NOW, host(Some(40)), segment(NOW, None), None).unwrap().0, 40);
    for disturb in [BoundSource::disrupt, BoundSource::step] {
        disturb(&mut bound, NOW);
        assert_eq!(bound.error_ns(NOW, None, segment(NOW + NOTICED_NS - 1, None), None), None);
        let noticed = segment(NOW + NOTICED_NS, None);
        assert_eq!(bound.error_ns(NOW, None, noticed, None), published);
    }
    // The page shows a disruption that the daemon has not seen.
    let later = NOW + NOTICED_NS;
    assert_eq!(bound.error_ns(NOW, host(None), segment(later, Some(1)), None), published);
    for page in [Some(VmClockBound { identity: (2, 1), error_ns: None }), None] {
        assert_eq!(bound.error_ns(NOW, page, segment(later, Some(1)), None), None);
    }
}

/// By the kernel as `simulator::kernel_clock` models it: as it is after a correction by `keep`, while
/// its sources are gone, and after a disruption takes back what it was told.
#[test]
fn it_follows_the_kernels_maxerror() {
    use simulator::kernel_clock::timex::{mode, status};
    use simulator::kernel_clock::{
        KernelClockSource, LinuxKernel, Timekeeper, Timex as Asked, Version,
    };

    const S: u64 = 1_000_000_000;
    let source = KernelClockSource::tsc(1_000_000);
    let mut kernel = Timekeeper::boot(LinuxKernel::new(Version(6, 12, 101), 250), source, 0, 0);
    let mut bound = BoundSource::new();
    let mut at = |bound: &mut BoundSource, second: u64, asked: Asked| {
        let (ticks, mut asked) = (second * S, asked);
        kernel.advance_to(ticks);
        kernel.adjtimex(ticks, &mut asked).unwrap();
        let synchronised = asked.status & status::UNSYNC == 0;
        let max_error_ns = asked.max_error as u64 * 1000;
        bound.update_timex(TimexBound { max_error_ns, synchronised }, second * S);
        synchronised.then_some(max_error_ns)
    };
    let read = Asked::default();
    let set = |us: i64| {
        let modes = mode::STATUS | mode::MAXERROR | mode::ESTERROR;
        Asked { modes, max_error: us, ..Asked::default() }
    };
    let of = |bound: &BoundSource, second: u64| error_ns(bound, second * S, None, None);

    let step = Asked { modes: mode::SETOFFSET, seconds: 60, ..Asked::default() };
    assert_eq!((at(&mut bound, 10, step), of(&bound, 10)), (None, None), "nobody vouches for it");
    assert_eq!(at(&mut bound, 11, set(250)), Some(250_000));
    assert_eq!(of(&bound, 11), Some((250_001, ErrorFrom::Kernel)));
    // Without a further look it grows as the kernel's own, to a second's worth.
    let of_clock = [12, 100, 3600].map(|second| of(&bound, second).unwrap().0);
    for (of_clock, second) in of_clock.into_iter().zip([12, 100, 3600]) {
        let of_kernel = at(&mut bound, second, read).unwrap();
        assert!(of_clock.abs_diff(of_kernel) <= 500_001, "{of_clock} {of_kernel} at {second} s");
    }
    bound.disrupt(3601 * S);
    let back = Asked { modes: mode::MAXERROR | mode::ESTERROR, max_error: 16_000_000, ..read };
    at(&mut bound, 3602, back);
    assert_eq!((at(&mut bound, 3604, read), of(&bound, 3604)), (None, None));
    assert_eq!(at(&mut bound, 3610, set(300)), Some(300_000));
    assert_eq!(of(&bound, 3610), Some((300_001, ErrorFrom::Kernel)));
}
