//! How often a daemon wakes where the host's clock is read in this machine: a VMClock page
//! in a file, right by this machine's own counter. It is a dry run, counted by the kernel as
//! voluntary switches: each wait is one, and so is each read that had to wait for a disk, which
//! a busy machine adds. So the fewest of several runs count.

use std::fs;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use daemon::{Daemon, DiscoveredSource, Settings};
use linux::counter::{Counter, CpuCounter};
use linux::wait::{Signals, WaitUntil};
use pvclock::Nanos;
use pvclock::vmclock::{CounterId, TimeType, VmClockFlags, VmClockInfo, VmClockStatus};

/// Samples by default, in `RAN`.
const SAMPLES: u64 = 8;
const RAN: Duration = Duration::from_secs(4);
const RUNS: usize = 3;

/// What else may wake it once, as it starts and ends.
const ELSE: u64 = 3;

fn now() -> (u64, Duration) {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    (CpuCounter.read_ordered(), since)
}

/// The host's clock is this machine's, ± 20 ms.
fn page() -> VmClockInfo {
    let (from, began) = now();
    std::thread::sleep(Duration::from_millis(300));
    let (to, ended) = now();
    let hz = (to - from) as f64 / (ended - began).as_secs_f64();
    VmClockInfo {
        size: 4096,
        counter_id: CounterId::NATIVE,
        time_type: TimeType::UTC,
        seq_count: 2,
        flags: VmClockFlags::TIME_MAX_ERROR_VALID.union(VmClockFlags::PERIOD_MAX_ERROR_VALID),
        clock_status: VmClockStatus::SYNCHRONISED,
        counter_value: to,
        // In units of 2^-64 s, times 2^20.
        period: (2.0_f64.powi(84) / hz) as u64,
        period_shift: 20,
        time_sec: ended.as_secs(),
        time_frac: ((u128::from(ended.subsec_nanos()) << 64) / 1_000_000_000) as u64,
        time_max_error: Nanos(20_000_000),
        ..VmClockInfo::ZERO
    }
}

fn woken() -> u64 {
    let status = fs::read_to_string("/proc/thread-self/status").unwrap();
    let mut lines = status.lines();
    let count = lines.find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    count.unwrap().trim().parse().unwrap()
}

/// How often a daemon of such settings wakes, and how often it samples, in the run of the
/// fewest wake-ups.
fn wakes(folder: &Path, change: impl Fn(&mut Settings), before: impl Fn()) -> [u64; 2] {
    (0..RUNS).map(|_| run(folder, &change, &before)).min().unwrap()
}

fn run(folder: &Path, change: impl Fn(&mut Settings), before: impl Fn()) -> [u64; 2] {
    let path = folder.join("vmclock0");
    fs::write(&path, page().to_bytes()).unwrap();
    let mut settings = Settings::default();
    (settings.dry_run, settings.force, settings.duration) = (true, true, Some(RAN));
    settings.sources.excluded = vec![DiscoveredSource::Phc, DiscoveredSource::Rtc];
    settings.paths.vmclock = path;
    change(&mut settings);
    let mut daemon = Daemon::new(settings).unwrap();
    before();
    let wait = WaitUntil::new(Signals::ending().unwrap());
    let from = woken();
    let summary = daemon.run(wait, |_| {}).unwrap();
    assert!(summary.replies > 0, "{summary:?}");
    [woken() - from, summary.samples]
}

#[test]
fn it_looks_between_two_samples_only_where_nothing_else_tells_of_a_pause() {
    let _alone = crate::alone();
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    // A host that says nothing, and nobody else to keep the clock.
    let [alone, _] = wakes(folder.path(), |_| {}, || {});
    let feed = |settings: &mut Settings| settings.chronyd.feed = Some(at("chrony.sock"));
    let [beside, samples] = wakes(folder.path(), feed, || {});
    println!("{alone} wake-ups in {RAN:?} alone, {beside} beside chronyd");
    assert!(beside <= SAMPLES + ELSE && samples <= SAMPLES + 1, "{beside} of {samples}");
    let told = |settings: &mut Settings| settings.sources.host_socket = Some(at("host.sock"));
    let notice = || {
        let host = UnixDatagram::unbound().unwrap();
        host.send_to(b"resumed", at("host.sock")).unwrap();
    };
    let [told, samples] = wakes(folder.path(), told, notice);
    println!("{told} wake-ups in {RAN:?} after a host's notice");
    // The notice is a sample of its own.
    assert!(told <= SAMPLES + ELSE && samples <= SAMPLES + 2, "{told} of {samples}");
    // Two looks between two samples.
    assert!(alone > 2 * SAMPLES && alone <= 3 * SAMPLES + ELSE, "{alone}");
}
