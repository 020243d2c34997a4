//! The lab's experiments on the order and origin of time, on this machine's
//! KVM: no check fails.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::need::Need;
use crate::program::{alone, shared, skipped};
use guest::layout::GuestPages;
use guest::monotonic::MonotonicOrder;
use guest::request::GuestRequest;
use guest::source::Source;
use host::pages::TimePage;
use host::{ClockAddress, ClockMemory, VcpuId};
use lab::results::{Check, ExperimentOutcome, ResultRow, Verdict};
use lab::{Experiment, Settings};
use pvclock::kvm_clock::TimeReader;
use pvclock::{Hertz, Nanos};
use vmm::{ClockBackend, Machine, MachineError};

const KVM: &[Need] = &[Need::Kvm];
/// An update takes milliseconds.
const TIMEOUT: Duration = Duration::from_secs(30);

/// With fewer reads than by default.
fn run(experiment: Experiment) -> ExperimentOutcome {
    let settings = Settings { monotonic_reads: 400_000, ..Settings::default() };
    let outcome = lab::run(experiment, &settings, &mut ()).expect("the experiment runs");
    let failed: Vec<_> = failed(&outcome).collect();
    assert!(failed.is_empty(), "{failed:#?}");
    outcome
}

fn passed(outcome: &ExperimentOutcome, begin: &str) -> usize {
    let passed = outcome.checks.iter().filter(|check| check.verdict == Verdict::Passed);
    passed.filter(|check| check.name.starts_with(begin)).count()
}

#[test]
fn lab_conformance_holds() {
    let Some(_program) = &alone(KVM) else { return };
    let outcome = run(Experiment::Conformance);
    for maker in ["kernel: ", "kvm: ", "hyperv: ", "none: ", "legacy: ", "minimal: "] {
        assert!(passed(&outcome, maker) > 0, "{maker}{:#?}", outcome.checks);
    }
}

#[test]
fn lab_updates_hold() {
    let Some(_program) = &alone(KVM) else { return };
    let outcome = run(Experiment::Updates);
    // Our provider accepts every event, but a move takes two physical CPUs.
    let own = outcome.table.rows.iter().filter(|row| row["clock_by"] == "kvm");
    let not_caused = own.filter(|row| !row["not_caused"].is_null());
    let is_move =
        |row: &&ResultRow| row["event"].as_str().is_some_and(|event| event.contains("moved"));
    let not_caused: Vec<_> = not_caused.filter(|row| !is_move(row)).collect();
    assert!(not_caused.is_empty(), "{not_caused:#?}");
    assert!(passed(&outcome, "kernel: ") > 0, "{:#?}", outcome.checks);
}

/// What the guest publishes does not change while it is paused, and does after.
#[test]
fn lab_pause_stops_a_busy_guest() {
    let Some(_program) = &alone(KVM) else { return };
    let machine = Machine::start(&vmm::Settings::new(ClockBackend::Kernel)).expect("a machine");
    machine.discover(0).expect("a guest that replies");
    let published = || machine.ram().shared().last_time_ns.load(Ordering::Acquire);
    let (source, reads) = (Source::Tsc, u64::MAX);
    let request = GuestRequest::Monotonic { source, reads, participants: 1, guarded: false };
    machine.send_request(0, request).expect("a guest that waits");
    let second = machine.send_request(0, GuestRequest::Discover);
    assert!(matches!(second, Err(MachineError::RequestPending { vcpu: 0, .. })), "{second:?}");
    for _ in 0..20 {
        let before = published();
        while published() == before {
            std::thread::yield_now();
        }
        machine.pause().expect("it pauses");
        let paused_at = published();
        std::thread::sleep(Duration::from_millis(5));
        assert_eq!(published(), paused_at);
        machine.resume().expect("it resumes");
    }
}

#[test]
fn lab_time_is_monotonic() {
    let Some(_program) = &alone(KVM) else { return };
    let outcome = run(Experiment::Monotonic);
    for row in &outcome.table.rows {
        assert_eq!(row["reads"], 400_000, "{row:?}");
        assert!(row["ordered"] == false || row["backward"] == 0, "{row:?}");
    }
}

/// Reads that last longer than the 100 ms after which a host writes all pages
/// (KVMCLOCK_UPDATE_DELAY): with TSCs apart, pages then begin in the future of the
/// last vCPU's.
#[test]
fn lab_time_is_monotonic_past_the_update_of_all() {
    let Some(_program) = &alone(KVM) else { return };
    let settings = Settings { monotonic_reads: 4_000_000, ..Settings::default() };
    let outcome = lab::run(Experiment::Monotonic, &settings, &mut ()).expect("it runs");
    let rows = &outcome.table.rows;
    assert_eq!(rows.len(), 8, "a row could not be measured: {:#?}", outcome.checks);
    for row in rows {
        assert!(row["ordered"] == false || row["backward"] == 0, "{row:?}");
    }
}

/// Both policies, the kernel's clock and ours.
fn restored() -> ExperimentOutcome {
    let settings = Settings { downtime: Duration::from_millis(300), ..Settings::default() };
    lab::run(Experiment::Restore, &settings, &mut ()).expect("it runs")
}

/// What does not depend on when a clock was read.
#[test]
fn lab_restore_holds() {
    let Some(_program) = &alone(KVM) else { return };
    let outcome = restored();
    let rows = &outcome.table.rows;
    assert_eq!(rows.len(), 8, "{:#?}", outcome.checks);
    for row in rows {
        assert!(row["downtime_s"].as_f64() >= Some(0.3) && row["guest_stopped"] == 1, "{row:?}");
    }
    let source = |row: &ResultRow| row["source"].as_str().map(str::to_owned).expect("a clock");
    let is_of_time = |check: &&Check| rows.iter().any(|row| check.name.ends_with(&source(row)));
    let wrong: Vec<&Check> = failed(&outcome).filter(|check| !is_of_time(check)).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Within the bound that was computed, which is far below the time that a save and a restore
/// take. A clock that was read late is off by the wait.
#[test]
#[ignore = "nightly: timing"]
fn lab_restore_keeps_each_clock_within_its_bound() {
    let Some(_program) = &alone(KVM) else { return };
    let outcome = restored();
    let failed: Vec<_> = failed(&outcome).collect();
    assert!(failed.is_empty(), "{failed:#?}");
    assert!(passed(&outcome, "kernel, ") >= 4, "{:#?}", outcome.checks);
    assert!(passed(&outcome, "kvm, ") >= 4, "{:#?}", outcome.checks);
}

/// Our kvm-clock page against the kernel's.
#[test]
#[ignore = "nightly: timing"]
fn lab_agreement_holds() {
    let Some(_program) = &alone(KVM) else { return };
    /// 1 µs, and 1 µs a second over 10 s.
    const MOST_NS: f64 = 11_000.0;
    let settings = Settings { drift: Duration::from_secs(10), ..Settings::default() };
    let outcome = lab::run(Experiment::Agreement, &settings, &mut ()).expect("it runs");
    let row = outcome.table.rows.iter().find(|row| row["page"] == "kvm-clock").expect("both pages");
    assert_eq!(row["samples"], 100, "{row:?}");
    let failed: Vec<_> = failed(&outcome).collect();
    assert!(row["worst_ns"].as_f64() <= Some(MOST_NS), "{row:?}");
    assert!(failed.is_empty(), "{failed:#?}");
}

fn failed(outcome: &ExperimentOutcome) -> impl Iterator<Item = &Check> {
    outcome.checks.iter().filter(|check| check.verdict == Verdict::Failed)
}

/// A machine with our provider's clock.
fn own_machine(settings: host::ClockSettings) -> Machine {
    let settings = vmm::Settings { vcpus: 2, ..vmm::Settings::new(ClockBackend::Own(settings)) };
    let machine = Machine::start(&settings).expect("a machine");
    for vcpu in 0..machine.vcpus() {
        machine.discover(vcpu).expect("a guest that replies");
    }
    machine
}

fn usual() -> host::ClockSettings {
    let host_tsc = vmm::kvm::host_tsc().expect("KVM returns its TSC's rate");
    host::ClockSettings::new(host::ClockProvider::Kvm, host_tsc)
}

fn send_to_all(machine: &Machine, request: GuestRequest) {
    for vcpu in 0..machine.vcpus() {
        machine.send_request(vcpu, request).expect("a guest that waits");
    }
}

/// What each vCPU replies.
fn replies(machine: &Machine, request: GuestRequest) -> Vec<MonotonicOrder> {
    let reply = |vcpu| machine.wait_for_reply(vcpu, request).expect("it replies");
    (0..machine.vcpus()).map(|vcpu| MonotonicOrder::decode(&reply(vcpu))).collect()
}

/// With a frequency that is advertised 10 % too low or too high the guest drifts from the
/// host's clock, 2 ms in 20, and each new snapshot steps: by more than the vCPUs are stopped
/// for it, which would hide a step back. No vCPU may keep using the old one.
#[test]
fn lab_a_new_snapshot_takes_no_time_back() {
    let Some(_program) = &alone(KVM) else { return };
    let usual = usual();
    let off = usual.host_tsc.0 / 10;
    for advertised in [usual.host_tsc.0 - off, usual.host_tsc.0 + off] {
        let machine = own_machine(usual.advertise(Hertz(advertised)));
        let offset = machine.with_clock(|host, _, _| host.tsc_offset(VcpuId(0))).flatten();
        let offset = offset.expect("the provider knows its vCPUs");
        let shared = machine.ram().shared();
        // Some seconds: a quarter of that had ended before the fifth once.
        let reads = 10_000_000;
        let source = Source::KvmClock;
        let request = GuestRequest::Monotonic { source, reads, participants: 2, guarded: false };
        send_to_all(&machine, request);
        for _ in 0..5 {
            let begun = shared.last_time_ns.load(Ordering::Acquire);
            let started = Instant::now();
            while shared.last_time_ns.load(Ordering::Acquire) < begun + 20_000_000 {
                assert!(started.elapsed() < TIMEOUT, "the guest reads no more");
                // Each vCPU has a CPU.
                std::thread::sleep(Duration::from_millis(1));
            }
            let set =
                machine.set_tsc_offset(0, offset).expect("KVM accepts the offset that it has");
            if set != offset {
                return skipped(&format!(
                    "this KVM moves an offset of {offset} to {set} by itself"
                ));
            }
        }
        let orders = replies(&machine, request);
        assert!(orders.iter().all(|order| order.reads == reads), "{orders:?}");
        let per_vcpu = machine.with_clock(|host, _, _| host.why_per_vcpu()).flatten();
        let what = format!("advertised {advertised} Hz: {orders:?}, {per_vcpu:?}");
        if orders.iter().any(|order| order.backward > 0) {
            judge_backward(&machine, &orders, &what);
        }
    }
}

/// A page is made of TSCs: where those of the host's CPUs differ by more than a cache line
/// takes from one to the other, RDTSC itself goes backward. It is read in the same way, for
/// up to 20 times as long. A snapshot that steps back does so by what has gathered since
/// the last.
fn judge_backward(machine: &Machine, orders: &[MonotonicOrder], what: &str) {
    const SKEW_NS: u64 = 200;
    let worst_ns = orders.iter().map(|order| order.worst_ns).max().unwrap_or(0);
    assert!(worst_ns <= SKEW_NS, "{what}");
    for _ in 0..20 {
        let shared = machine.ram().shared();
        shared.last_time_ns.store(0, Ordering::Release);
        shared.ready.store(0, Ordering::Release);
        let (source, reads) = (Source::Tsc, 10_000_000);
        let request = GuestRequest::Monotonic { source, reads, participants: 2, guarded: false };
        send_to_all(machine, request);
        let tscs = replies(machine, request);
        if tscs.iter().any(|tsc| tsc.backward > 0) {
            return skipped(&format!("{what}; RDTSC itself goes backward: {tscs:?} in cycles"));
        }
    }
    panic!("{what}, and RDTSC never goes backward");
}

/// A vCPU that never exits by itself gets its page written each period.
#[test]
fn lab_deadlines_reach_a_busy_guest() {
    let Some(_program) = &alone(KVM) else { return };
    let machine = own_machine(usual().changed(|new| new.sync_period = Some(Nanos(20_000_000))));
    let version = |vcpu| {
        let page = machine.ram().page(ClockAddress(GuestPages::time_address(vcpu)));
        let page: &TimePage = page.expect("the guest's page is in its memory");
        TimeReader::new(page).info().expect("a page that is on").version
    };
    let (source, reads) = (Source::Tsc, u64::MAX);
    send_to_all(
        &machine,
        GuestRequest::Monotonic { source, reads, participants: 2, guarded: false },
    );
    for vcpu in 0..machine.vcpus() {
        let begun = version(vcpu);
        let started = Instant::now();
        while version(vcpu).wrapping_sub(begun) < 6 {
            assert!(started.elapsed() < TIMEOUT, "vCPU {vcpu}: still at {}", version(vcpu));
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

#[test]
fn lab_clock_of_another_size_is_refused() {
    let Some(_program) = &shared(KVM) else { return };
    let vm = vmm::kvm::open().and_then(|kvm| kvm.create_vm().map_err(MachineError::NoKvm));
    let vm = vm.expect("a VM");
    let host = kvm::HostCapabilities::new(kvm::HostTsc::unscaled(Hertz(2_600_000_000)));
    let none: [&kvm_ioctls::VcpuFd; 0] = [];
    let mut saved = kvm::save(&vm, &none, &host).expect("KVM returns its clock");
    saved.tscs.push(kvm::SavedTsc::new(Hertz(1_000), 0));
    let restored = kvm::restore(&vm, &none, &saved, &host, host::RestorePolicy::Freeze);
    let why = restored.expect_err("there is no vCPU to take it").to_string();
    assert_eq!(why, "the saved clock has 1 vCPUs, this VM has 0");
}
