//! Forces each cause of lateness that this machine lets itself be forced to, and
//! counts how often `inspect::latency` names it, and names it where it is not:
//!
//! ```sh
//! cargo run -p e2e --bin latency-causes -- [RUNS] [CAUSE]
//! ```
//!
//! A cause is named right where it explains at least half of the time that was
//! forced, or where the comparison that proves it holds. What else the machine
//! does meanwhile (other threads, its host) may be named beside it. A run in which
//! the cause could not be forced is made again. It ends with exit code 1 where a cause is
//! named in less than 95 % of the runs that forced it, in more than 5 % of those that did
//! not, or could not be forced at all.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::UdpSocket;
use std::num::NonZeroU64;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use inspect::latency::{Peer, Plan, measure};
use instruments::latency::cause::Cause;
use instruments::latency::proof::proven;
use instruments::latency::{FigureKind, Latency, shares};
use linux::cpus::pin;
use linux::membarrier::Membarrier;
use linux::scheduling::set_timer_slack_ns;
use rustix::process::{Pid, Signal, kill_process};

/// A run with the cause forced, and one without; whether it was named.
struct Case {
    name: &'static str,
    forced: fn() -> Option<bool>,
    free: Option<fn() -> Option<bool>>,
}

const CASES: [Case; 7] = [
    Case { name: "run-queue", forced: run_queue, free: None },
    Case { name: "quota", forced: || quota(1), free: Some(|| quota(-1)) },
    Case { name: "stopped", forced: || stopped(true), free: Some(|| stopped(false)) },
    Case { name: "interrupts", forced: || interrupts(true), free: Some(|| interrupts(false)) },
    Case { name: "timer-slack", forced: || slack(2_000_000), free: Some(|| slack(1)) },
    Case { name: "placement", forced: placement, free: None },
    Case { name: "peer", forced: || peer(true), free: Some(|| peer(false)) },
];

/// So many are to be named right, %.
const RIGHT_PERCENT: usize = 95;

/// Of each run, ms.
const RUN_MS: u64 = 400;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [child, group] = &arguments[..]
        && child == "child"
    {
        child_measures(group);
        return ExitCode::SUCCESS;
    }
    if arguments.first().is_some_and(|first| first == "pipe-echo") {
        let (input, output) = (std::io::stdin().lock(), std::io::stdout().lock());
        let _ = inspect::pipe_pair::echo(input, Unbuffered(output));
        return ExitCode::SUCCESS;
    }
    let runs: u32 = arguments.first().and_then(|runs| runs.parse().ok()).unwrap_or(20);
    let mut is_right = true;
    let mut judge = |name: &str, when: &str, run: fn() -> Option<bool>, is_to_be_named: bool| {
        let outcomes: Vec<bool> = (0..2 * runs).filter_map(|_| run()).take(runs as usize).collect();
        let right = outcomes.iter().filter(|named| **named == is_to_be_named).count();
        let named = outcomes.iter().filter(|named| **named).count();
        println!("{name}: named when {when} in {named} of {}", outcomes.len());
        is_right &= right > 0 && right * 100 >= RIGHT_PERCENT * outcomes.len();
    };
    for case in CASES {
        if arguments.get(1).is_some_and(|only| only != case.name) {
            continue;
        }
        judge(case.name, "forced", case.forced, true);
        if let Some(free) = case.free {
            judge(case.name, "not forced", free, false);
        }
    }
    if is_right { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

struct Unbuffered<W>(W);

impl<W: std::io::Write> std::io::Write for Unbuffered<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let written = self.0.write(bytes)?;
        self.0.flush()?;
        Ok(written)
    }
    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}

fn plan(only: &[FigureKind]) -> Plan {
    Plan {
        duration: Duration::from_millis(RUN_MS),
        echo: || {
            let mut command = Command::new("/proc/self/exe");
            command.arg("pipe-echo");
            command
        },
        peer: None,
        cpus: Some((1, 1)),
        only: only.to_vec(),
    }
}

fn gaps() -> Latency {
    measure(&plan(&[FigureKind::Gap]), &|_| ())
}

/// Time that the long delays of a cause took, ns.
fn taken(found: &Latency, cause: Cause) -> u64 {
    let shares = shares(&found.delays);
    shares.iter().filter(|share| share.cause == cause).map(|share| share.total_ns).sum()
}

fn proves(found: &Latency, cause: Cause) -> bool {
    proven(found).iter().any(|proven| proven.cause == cause)
}

/// Beside `work`, another thread does `other` again and again.
fn beside<T>(other: impl Fn() + Sync + Send, work: impl FnOnce() -> T) -> T {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                other();
            }
        });
        let done = work();
        over.store(true, Ordering::Relaxed);
        done
    })
}

/// A thread of the same priority on the same CPU takes half of it.
fn run_queue() -> Option<bool> {
    let ran = AtomicBool::new(false);
    let busy = || {
        if !ran.swap(true, Ordering::Relaxed) {
            // Bound for as long as the thread lives.
            std::mem::forget(pin(1));
        }
        std::hint::spin_loop();
    };
    let found = beside(busy, gaps);
    Some(taken(&found, Cause::RunQueue) >= RUN_MS * 1_000_000 / 4)
}

/// Interrupts from another CPU, a hundred thousand a second.
fn interrupts(forced: bool) -> Option<bool> {
    let barrier = Membarrier::register().ok()?;
    let bound = AtomicBool::new(false);
    let storm = || {
        if !bound.swap(true, Ordering::Relaxed) {
            std::mem::forget(pin(0));
        }
        if forced {
            barrier.interrupt_all();
        } else {
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    let found = beside(storm, gaps);
    let gaps = |cause| {
        found
            .short_gaps
            .iter()
            .filter(|gaps| gaps.cause == cause)
            .map(|gaps| gaps.gaps)
            .sum::<u64>()
    };
    let all: u64 = found.short_gaps.iter().map(|gaps| gaps.gaps).sum();
    // A sender that hardly ran has forced nothing; without one a few come too.
    if forced && all < 200 {
        return None;
    }
    Some(gaps(Cause::Interrupts) * 2 > all && all >= 200)
}

/// Timers measured after the slack was set.
fn slack(ns: u64) -> Option<bool> {
    set_timer_slack_ns(NonZeroU64::new(ns)?).ok()?;
    let found = measure(
        &Plan { duration: Duration::from_millis(500), ..plan(&[FigureKind::TimerWakeUp]) },
        &|_| (),
    );
    found.figure(FigureKind::TimerWakeUpInheritedSlack)?;
    Some(proves(&found, Cause::TimerSlack))
}

/// Pipes on one CPU and across two.
fn placement() -> Option<bool> {
    let kinds = [FigureKind::PipeOneCpu, FigureKind::PipeAcrossCpus];
    let mut all = Plan { duration: Duration::from_secs(4), ..plan(&kinds) };
    all.cpus = Some((1, 0));
    let found = measure(&all, &|_| ());
    found.figure(FigureKind::PipeOneCpu)?;
    Some(proves(&found, Cause::Placement))
}

/// An echo on loopback that keeps every tenth answer for 30 ms.
fn peer(slow: bool) -> Option<bool> {
    let socket = UdpSocket::bind("127.0.0.1:0").ok()?;
    socket.set_read_timeout(Some(Duration::from_millis(50))).ok()?;
    let host = format!("udp:{}", socket.local_addr().ok()?);
    let served = std::sync::atomic::AtomicU32::new(0);
    let echo = || {
        let mut bytes = [0; 64];
        if let Ok((length, from)) = socket.recv_from(&mut bytes) {
            if slow && served.fetch_add(1, Ordering::Relaxed) % 10 == 9 {
                std::thread::sleep(Duration::from_millis(30));
            }
            let _ = socket.send_to(&bytes[..length], from);
        }
    };
    let all = Plan {
        peer: Peer::parse(&host).ok(),
        duration: Duration::from_millis(700),
        ..plan(&[FigureKind::Echo])
    };
    let found = beside(echo, || measure(&all, &|_| ()));
    let answered = found.figure(FigureKind::Echo)?.ns.samples;
    // Two thirds of the delays that were forced.
    Some(taken(&found, Cause::Peer) >= answered / 10 * 20_000_000 && answered >= 20)
}

/// This program again, measuring gaps.
fn child(group: &str) -> Option<Child> {
    let mut command = Command::new("/proc/self/exe");
    command.args(["child", group]).stdout(Stdio::piped()).spawn().ok()
}

fn child_measures(group: &str) {
    if !group.is_empty() {
        let joined = fs::write(format!("{group}/cgroup.procs"), std::process::id().to_string());
        joined.expect("the control group takes this process");
    }
    println!("measuring");
    // Long enough to be stopped in its middle.
    let length = RUN_MS * if group.is_empty() { 4 } else { 1 };
    let all = Plan { duration: Duration::from_millis(length), ..plan(&[FigureKind::Gap]) };
    let found = measure(&all, &|_| ());
    println!("{}", serde_json::to_string(&found).expect("figures are JSON"));
}

fn answer(child: Child) -> Option<Latency> {
    let output = child.wait_with_output().ok()?;
    let said = String::from_utf8(output.stdout).ok()?;
    serde_json::from_str(said.split_once('\n')?.1).ok()
}

/// A quota of so many ms in 20, or none.
fn quota(ms: i64) -> Option<bool> {
    let group = format!("/sys/fs/cgroup/cpu/parachron-latency-{}", std::process::id());
    fs::create_dir(&group).ok()?;
    let quota_us = if ms < 0 { -1 } else { ms * 1000 };
    let set = |file: &str, value: i64| fs::write(format!("{group}/{file}"), value.to_string()).ok();
    let found = set("cpu.cfs_period_us", 20_000)
        .and_then(|()| set("cpu.cfs_quota_us", quota_us))
        .and_then(|()| child(&group))
        .and_then(answer);
    let stat = fs::read_to_string(format!("{group}/cpu.stat")).unwrap_or_default();
    // The child has ended, so that the group is empty.
    let _ = fs::remove_dir(&group);
    let throttled_ns = facts::running::parse_throttled(&stat);
    let named_ns = taken(&found?, Cause::Quota);
    // Where others leave it less than its quota, nothing is forced.
    if ms > 0 && throttled_ns < 50_000_000 {
        return None;
    }
    Some(named_ns > 0 && named_ns * 2 >= throttled_ns)
}

/// Stopped for 400 ms in the middle of its run: longer than it may then wait for a
/// CPU, which would be the greater cause of the same gap.
fn stopped(stop: bool) -> Option<bool> {
    let mut child = child("")?;
    let mut said = BufReader::new(child.stdout.take()?);
    said.read_line(&mut String::new()).ok()?;
    let pid = Pid::from_raw(i32::try_from(child.id()).ok()?)?;
    std::thread::sleep(Duration::from_millis(RUN_MS));
    if stop {
        kill_process(pid, Signal::STOP).ok()?;
        std::thread::sleep(Duration::from_millis(400));
        kill_process(pid, Signal::CONT).ok()?;
    }
    let found: Latency = serde_json::from_reader(said).ok()?;
    child.wait().ok()?;
    // Between two bursts of the loop nothing is seen of it.
    if stop && found.figure(FigureKind::Gap)?.ns.max < 350e6 {
        return None;
    }
    Some(taken(&found, Cause::Stopped) >= 200_000_000)
}
