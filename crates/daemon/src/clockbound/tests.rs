use linux::clockbound::MappedSegment;
use pvclock::units::OffsetBound;

use super::*;

const S: u64 = 1_000_000_000;
const OFFSET: OffsetBound = OffsetBound { offset_ns: -300, bound_ns: 40, at_monotonic_ns: 10 * S };

/// Of a clock whose rate is known to 20 ppm.
fn within(offset: OffsetBound, is_free_running: bool) -> KeptBound {
    KeptBound::Within { offset, growth_ppb: 20_000, frequency_ppb: 0, is_free_running }
}

#[test]
fn the_bound_has_grown_since_the_clock_was_measured() {
    let known = |is_free_running| within(OFFSET, is_free_running);
    let sure = bound(known(false), 11 * S, 12 * S);
    assert_eq!((sure.as_of_ns, sure.void_after_ns), (11 * S, 71 * S));
    assert_eq!((sure.bound_ns, sure.status), (340 + 40_000, SegmentStatus::Synchronised));
    assert_eq!(sure.max_drift_ppb, 20_000, "as clients grow it");
    assert_eq!(bound(known(true), 11 * S, 12 * S).status, SegmentStatus::FreeRunning);
    assert_eq!(bound(KeptBound::Disrupted, 1, 1).status, SegmentStatus::Disrupted);
    assert_eq!(bound(KeptBound::Unknown, 1, 1).status, SegmentStatus::Unknown);
}

#[test]
fn a_daemon_that_publishes_here_already_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let none = folder.path().join("no_vmclock");
    let folder = folder.path().join("clockbound");
    let mut theirs = ClockBound::open(&folder, &none, false).unwrap();
    let at_monotonic_ns = LinuxClock::Monotonic.read_ns().unwrap();
    let known = within(OffsetBound { at_monotonic_ns, ..OFFSET }, false);
    theirs.write(known).unwrap();
    let client = MappedSegment::open(&folder.join("shm0")).unwrap();
    // Ours waits until it is sure that theirs has ended, and does not begin
    // where it goes on.
    let mut ours = ClockBound::open(&folder, &none, false).unwrap();
    ours.write(KeptBound::Unknown).unwrap();
    assert_eq!(client.read().unwrap().1.status, SegmentStatus::Synchronised);
    theirs.write(known).unwrap();
    ours.held_until_ns = 0;
    assert_eq!(ours.write(KeptBound::Unknown).unwrap_err().kind(), io::ErrorKind::AddrInUse);
    assert!(matches!(
        ours.publish(KeptBound::Unknown),
        Some(KeeperEvent::SourceUnreachable { .. })
    ));
    assert!(ours.publish(KeptBound::Unknown).is_none());
    assert_eq!(client.read().unwrap().1.status, SegmentStatus::Synchronised);
    // One that ended by itself had left nothing to wait for.
    theirs.write(KeptBound::Unknown).unwrap();
    let mut next = ClockBound::open(&folder, &none, false).unwrap();
    next.write(KeptBound::Disrupted).unwrap();
    assert_eq!(client.read().unwrap().1.status, SegmentStatus::Disrupted);
    drop(next);
    assert_eq!(client.read().unwrap().1.status, SegmentStatus::Unknown);
}

#[test]
fn what_a_killed_daemon_of_ours_left_is_gone_on_with_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let none = folder.path().join("no_vmclock");
    let open = |is_alone| ClockBound::open(folder.path(), &none, is_alone).unwrap();
    let mut killed = open(true);
    let at_monotonic_ns = LinuxClock::Monotonic.read_ns().unwrap();
    let offset = OffsetBound { at_monotonic_ns, ..OFFSET };
    killed.write(within(offset, false)).unwrap();
    std::mem::forget(killed);
    let client = MappedSegment::open(&folder.path().join("shm0")).unwrap();
    let mut without_the_lock = open(false);
    without_the_lock.write(KeptBound::Disrupted).unwrap();
    assert_eq!(client.read().unwrap().1.status, SegmentStatus::Synchronised);
    open(true).write(KeptBound::Disrupted).unwrap();
    assert_eq!(client.read().unwrap().1.status, SegmentStatus::Unknown);
    // Another project's daemon lets a bound count for longer.
    let mut segment = PublishedSegment::open(folder.path(), Layout::SystemClock).unwrap();
    let theirs = SegmentBound {
        void_after_ns: coarse_ns() + 1000 * S,
        ..bound(within(offset, false), coarse_ns(), at_monotonic_ns)
    };
    segment.write(&theirs).unwrap();
    open(true).write(KeptBound::Disrupted).unwrap();
    assert_eq!(client.read().unwrap().1.status, SegmentStatus::Synchronised);
}

#[test]
fn a_marker_that_clients_may_not_compare_is_reported_with_the_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("vmclock0");
    let reported = |mode: Option<u32>| {
        if let Some(mode) = mode {
            std::fs::write(&page, "").unwrap();
            std::fs::set_permissions(&page, std::fs::Permissions::from_mode(mode)).unwrap();
        }
        let clockbound = Some(folder.path().join("clockbound"));
        let mut settings = Settings { clockbound, ..Settings::default() };
        settings.paths.vmclock.clone_from(&page);
        let mut not_used = Vec::new();
        drop(ClockBound::new(&settings, true, &mut not_used));
        not_used.pop().map_or(String::new(), |not_used| not_used.why)
    };
    assert_eq!(reported(None), "");
    assert!(reported(Some(0o600)).contains(&format!("run `chmod a+r {}`", page.display())));
    std::fs::remove_file(&page).unwrap();
    assert_eq!(reported(Some(0o444)), "");
}

/// The remedy is followed, and the configuration read again.
#[test]
fn a_page_with_other_permissions_is_opened_again() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("vmclock0");
    let allow = |mode| {
        std::fs::set_permissions(&page, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    std::fs::write(&page, "").unwrap();
    allow(0o600);
    let opened = |name: &str| ClockBound::open(&folder.path().join(name), &page, true).unwrap();
    let mut closed = opened("closed");
    allow(0o644);
    let mut public = opened("public");
    assert!(!closed.is_compared && public.is_compared);
    // Nor is a marker published that no sample has shown.
    for (published, name) in [(&mut closed, "closed"), (&mut public, "public")] {
        published.write(KeptBound::Unknown).unwrap();
        let client = MappedSegment::open(&folder.path().join(name).join("shm0")).unwrap();
        assert_eq!(client.read().unwrap().1.disruption_marker, None);
    }
}

#[test]
fn the_marker_is_the_one_that_the_last_sample_showed() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("vmclock0");
    std::fs::write(&page, "").unwrap();
    let marker = |mode| {
        std::fs::set_permissions(&page, std::fs::Permissions::from_mode(mode)).unwrap();
        let mut ours = ClockBound::open(folder.path(), &page, true).unwrap();
        let vmclock = facts::hardware::VmClock {
            device: String::new(),
            disruption_marker: 7,
            vm_generation: None,
            clock_status: 0,
        };
        ours.note_sample(&Sample { vmclock: facts::Fact::Known(vmclock), ..Sample::new(1) });
        ours.write(KeptBound::Unknown).unwrap();
        let client = MappedSegment::open(&folder.path().join("shm0")).unwrap();
        client.read().unwrap().1.disruption_marker
    };
    assert_eq!(marker(0o644), Some(7));
    // A client that may not read the page would fail.
    assert_eq!(marker(0o600), None);
}
