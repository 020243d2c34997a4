//! The causes: a run that forces each, and one that does not.

use std::net::UdpSocket;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use inspect::latency::{EchoPeer, LatencyPlan, measure};
use instruments::latency::cause::LatenessCause;
use instruments::latency::proof::proven;
use instruments::latency::{FigureKind, Latency, shares};
use linux::cpus::pin;
use linux::membarrier::Membarrier;
use linux::scheduling::set_timer_slack_ns;
use rustix::process::{Pid, Signal, kill_process};

use crate::children::{Measuring, Wish};
use crate::idle_cost::{self, IdleCost};
use crate::machine::{QuotaGroup, SteeredLoopback, busy, state};
use crate::plan::{MEASURED, OTHER, RUN_MS, plan};

/// Whether the cause was named, or why the run does not count.
pub(crate) type Outcome = Result<bool, String>;

/// What a run measured, with units: kept with its outcome.
pub(crate) type Figures = Vec<String>;

/// One run.
pub(crate) type Take = fn(&mut Figures) -> Outcome;

/// A run with the cause forced, and one without.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) forced: Take,
    pub(crate) control: Take,
}

const fn case(name: &'static str, forced: Take, control: Take) -> Case {
    Case { name, forced, control }
}

pub(crate) const CASES: [Case; 10] = [
    case("run-queue", |figures| run_queue(figures, MEASURED), |figures| run_queue(figures, OTHER)),
    case("nice", |figures| nice(figures, MEASURED), |figures| nice(figures, OTHER)),
    case("quota", |figures| quota(figures, Some(1_000)), |figures| quota(figures, None)),
    case("stopped", |figures| stopped(figures, true), |figures| stopped(figures, false)),
    case("interrupts", |figures| interrupts(figures, true), |figures| interrupts(figures, false)),
    case("softirqs", |figures| softirqs(figures, true), |figures| softirqs(figures, false)),
    case("idle-exit", |figures| idle_exit(figures, false), |figures| idle_exit(figures, true)),
    case("timer-slack", |figures| slack(figures, 2_000_000), |figures| slack(figures, 1)),
    case("placement", |figures| placement(figures, (1, 0)), |figures| placement(figures, (1, 1))),
    case("peer", |figures| peer(figures, true), |figures| peer(figures, false)),
];

/// A process is stopped for so long: longer than it may then wait for a CPU, which would be
/// the greater cause of the same gap.
const STOPPED: Duration = Duration::from_millis(400);

fn gaps() -> Latency {
    measure(&plan(&[FigureKind::Gap]), &|_| ())
}

/// Time that the long delays of a cause took, ns.
fn taken(found: &Latency, cause: LatenessCause) -> u64 {
    let shares = shares(&found.delays);
    shares.iter().filter(|share| share.cause == cause).map(|share| share.total_ns).sum()
}

/// Short gaps of a cause, and of all.
fn short(found: &Latency, cause: LatenessCause) -> (u64, u64) {
    let sum = |of: &dyn Fn(LatenessCause) -> bool| {
        found.short_gaps.iter().filter(|gaps| of(gaps.cause)).map(|gaps| gaps.gaps).sum()
    };
    (sum(&|other| other == cause), sum(&|_| true))
}

fn proves(found: &Latency, cause: LatenessCause) -> bool {
    proven(found).iter().any(|proven| proven.cause == cause)
}

/// Beside `work`, another thread does `other` repeatedly, bound to a CPU if there is one.
fn beside<T>(cpu: Option<u32>, other: impl Fn() + Sync + Send, work: impl FnOnce() -> T) -> T {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let _pinned = cpu.map(pin);
            while !over.load(Ordering::Relaxed) {
                other();
            }
        });
        let done = work();
        over.store(true, Ordering::Relaxed);
        done
    })
}

/// A thread of the same priority takes half of a CPU.
fn run_queue(figures: &mut Figures, cpu: u32) -> Outcome {
    let is_forced = cpu == MEASURED;
    if !is_forced {
        busy(1)?;
    }
    let found = beside(Some(cpu), std::hint::spin_loop, gaps);
    if !is_forced {
        busy(1)?;
    }
    let taken_ns = taken(&found, LatenessCause::RunQueue);
    figures.push(format!("{:.1} ms", taken_ns as f64 / 1e6));
    Ok(taken_ns >= RUN_MS * 1_000_000 / 4)
}

/// A process of the least priority beside a thread of the usual one.
fn nice(figures: &mut Figures, cpu: u32) -> Outcome {
    let is_forced = cpu == MEASURED;
    if !is_forced {
        busy(1)?;
    }
    let length = Duration::from_millis(RUN_MS);
    let found = beside(Some(cpu), std::hint::spin_loop, || {
        Measuring::start(&Wish { nice: 19, length, ..Wish::default() }).and_then(Measuring::finish)
    })?;
    if !is_forced {
        busy(1)?;
    }
    let taken_ns = taken(&found, LatenessCause::RunQueue);
    figures.push(format!("{:.1} ms", taken_ns as f64 / 1e6));
    Ok(taken_ns >= RUN_MS * 1_000_000 / 2)
}

/// Gaps that interrupts have to make.
const INTERRUPTED_MIN: u64 = 200;

/// Interrupts from another CPU, a hundred thousand a second.
fn interrupts(figures: &mut Figures, is_forced: bool) -> Outcome {
    let barrier = Membarrier::register().map_err(|error| format!("membarrier: {error}"))?;
    let sent = AtomicU64::new(0);
    let storm = || {
        if is_forced {
            barrier.interrupt_all();
            sent.fetch_add(1, Ordering::Relaxed);
        } else {
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    let (named, all) = short(&beside(Some(OTHER), storm, gaps), LatenessCause::Interrupts);
    let sent = sent.load(Ordering::Relaxed);
    figures.push(format!("{named} of {all} short gaps, {sent} interrupts sent"));
    // Gaps that are more than what was sent have another cause, which was not forced.
    if is_forced && (all < INTERRUPTED_MIN || sent < all) {
        return Err(format!("busy: {all} gaps, and {sent} interrupts sent"));
    }
    Ok(named * 2 > all && all >= INTERRUPTED_MIN)
}

/// Packets that a run has to send, and that its loop has to see.
const PACKETS_SENT: u32 = 10_000;
const PACKETS_SEEN: u64 = 100;

/// Packets on loopback, sent on one CPU and served on the other.
fn softirqs(figures: &mut Figures, is_forced: bool) -> Outcome {
    let _steered = SteeredLoopback::to_cpu(if is_forced { MEASURED } else { OTHER })?;
    let failed = |error: std::io::Error| format!("a socket: {error}");
    let (to, from) = (UdpSocket::bind("127.0.0.1:0"), UdpSocket::bind("127.0.0.1:0"));
    let (to, from) = (to.map_err(failed)?, from.map_err(failed)?);
    from.connect(to.local_addr().map_err(failed)?).map_err(failed)?;
    let sent = AtomicU32::new(0);
    let flood = || {
        // Nobody reads: a full queue drops the packet in the softirq.
        let _ = from.send(&[0; 1_400]);
        sent.fetch_add(1, Ordering::Relaxed);
    };
    let found = beside(Some(OTHER), flood, gaps);
    let sent = sent.load(Ordering::Relaxed);
    if sent < PACKETS_SENT {
        return Err(format!("busy: {sent} packets sent only"));
    }
    let (named, all) = short(&found, LatenessCause::Softirqs);
    figures.push(format!("{named} of {all} short gaps, {sent} packets sent"));
    // A run that hardly had its CPU hardly saw one: other programs' packets are as many.
    if is_forced && all < PACKETS_SEEN {
        return Err(format!("busy: {all} gaps only"));
    }
    Ok(named * 2 > all && all >= PACKETS_SEEN)
}

/// Timers of an idle CPU, or of one that a thread of SCHED_IDLE keeps from idling. What leaving
/// idle costs in these seconds is measured before and after, by other code: it also shows a CPU
/// that others kept from idling.
fn idle_exit(figures: &mut Figures, is_awake: bool) -> Outcome {
    let all =
        LatencyPlan { duration: Duration::from_millis(900), ..plan(&[FigureKind::TimerWakeUp]) };
    busy(1)?;
    if is_awake {
        let found = idle_cost::beside_lowest(MEASURED, || measure(&all, &|_| ()))?;
        busy(1)?;
        figures.push(idle_figures(&found));
        return Ok(proves(&found, LatenessCause::IdleExit));
    }
    let mut rounds = idle_cost::rounds(MEASURED)?;
    let found = measure(&all, &|_| ());
    rounds.extend(idle_cost::rounds(MEASURED)?);
    let cost = IdleCost::from_rounds(&rounds).ok_or("no round")?;
    figures.push(idle_figures(&found));
    figures.push(cost.to_string());
    busy(1)?;
    let is_named = proves(&found, LatenessCause::IdleExit);
    let name = if is_named { "named" } else { "not named" };
    cost.forced().map_err(|why| format!("{why}, and {name}"))?;
    Ok(is_named)
}

/// What the program measured, on whose difference it decides.
fn idle_figures(found: &Latency) -> String {
    let p50_us = |kind| found.figure(kind).map_or(f64::NAN, |figure| figure.ns.p50 / 1e3);
    let (asleep, awake) = (p50_us(FigureKind::TimerWakeUp), p50_us(FigureKind::TimerWakeUpAwake));
    format!("{asleep:.1} µs late, {awake:.1} kept awake, {:.1} more", asleep - awake)
}

/// Timers measured after the slack was set.
fn slack(figures: &mut Figures, ns: u64) -> Outcome {
    let slack = NonZeroU64::new(ns).ok_or("a slack of 0")?;
    set_timer_slack_ns(slack).map_err(|error| format!("timer slack: {error}"))?;
    let all =
        LatencyPlan { duration: Duration::from_millis(500), ..plan(&[FigureKind::TimerWakeUp]) };
    let found = measure(&all, &|_| ());
    let late = found.figure(FigureKind::TimerWakeUpInheritedSlack).ok_or("no timer woke up")?;
    figures.push(format!("{:.1} µs late", late.ns.p50 / 1e3));
    Ok(proves(&found, LatenessCause::TimerSlack))
}

/// Pipes on one CPU and across two, or twice on one.
fn placement(figures: &mut Figures, cpus: (u32, u32)) -> Outcome {
    let kinds = [FigureKind::PipeOneCpu, FigureKind::PipeAcrossCpus];
    let all = LatencyPlan { duration: Duration::from_secs(1), cpus: Some(cpus), ..plan(&kinds) };
    let found = measure(&all, &|_| ());
    let p50_us = |kind| found.figure(kind).map(|figure| figure.ns.p50 / 1e3);
    let one = p50_us(FigureKind::PipeOneCpu).ok_or("no pipe was measured")?;
    let across = p50_us(FigureKind::PipeAcrossCpus).unwrap_or(f64::NAN);
    figures.push(format!("{one:.1} µs on one CPU, {across:.1} on two"));
    Ok(proves(&found, LatenessCause::Placement))
}

/// An echo on loopback that keeps every tenth answer for 30 ms.
fn peer(figures: &mut Figures, slow: bool) -> Outcome {
    let failed = |error: std::io::Error| format!("a socket: {error}");
    let socket = UdpSocket::bind("127.0.0.1:0").map_err(failed)?;
    socket.set_read_timeout(Some(Duration::from_millis(50))).map_err(failed)?;
    let host = format!("udp:{}", socket.local_addr().map_err(failed)?);
    let served = AtomicU32::new(0);
    let echo = || {
        let mut bytes = [0; 64];
        if let Ok((length, from)) = socket.recv_from(&mut bytes) {
            if slow && served.fetch_add(1, Ordering::Relaxed) % 10 == 9 {
                std::thread::sleep(Duration::from_millis(30));
            }
            let _ = socket.send_to(&bytes[..length], from);
        }
    };
    let all = LatencyPlan {
        peer: EchoPeer::parse(&host).ok(),
        duration: Duration::from_millis(700),
        ..plan(&[FigureKind::Echo])
    };
    let found = beside(None, echo, || measure(&all, &|_| ()));
    let answered = found.figure(FigureKind::Echo).ok_or("no answer")?.ns.samples;
    if answered < 20 {
        return Err(format!("busy: {answered} answers only"));
    }
    let taken_ns = taken(&found, LatenessCause::Peer);
    figures.push(format!("{:.1} ms, {answered} answers", taken_ns as f64 / 1e6));
    // Two thirds of the delays that were forced.
    Ok(taken_ns >= answered / 10 * 20_000_000)
}

/// A quota of so many µs in 20 ms, or none.
fn quota(figures: &mut Figures, quota_us: Option<u32>) -> Outcome {
    let group = QuotaGroup::create(quota_us)?;
    let (path, length) = (group.folder.display().to_string(), Duration::from_millis(RUN_MS));
    let found = Measuring::start(&Wish { group: path, length, ..Wish::default() })?.finish()?;
    let (throttled_ns, named_ns) = (group.throttled_ns(), taken(&found, LatenessCause::Quota));
    let ms = |ns: u64| ns as f64 / 1e6;
    figures.push(format!("{:.1} ms, throttled for {:.1}", ms(named_ns), ms(throttled_ns)));
    // Where others leave it less than its quota, nothing is forced.
    if quota_us.is_some() && throttled_ns < 50_000_000 {
        return Err(format!("busy: throttled for {throttled_ns} ns only"));
    }
    Ok(named_ns > 0 && named_ns * 2 >= throttled_ns)
}

/// Stopped in the middle of its run, seen running before and stopped in between.
fn stopped(figures: &mut Figures, stop: bool) -> Outcome {
    // Long enough to be stopped in its middle.
    let length = Duration::from_millis(4 * RUN_MS);
    let child = Measuring::start(&Wish { length, ..Wish::default() })?;
    let process = child.process.id();
    let pid = i32::try_from(process).ok().and_then(Pid::from_raw).ok_or("no process")?;
    std::thread::sleep(Duration::from_millis(RUN_MS));
    let before = state(process);
    let mut during = None;
    if stop {
        let send = |signal| kill_process(pid, signal).map_err(|error| format!("a signal: {error}"));
        send(Signal::STOP)?;
        std::thread::sleep(STOPPED);
        during = state(process);
        send(Signal::CONT)?;
    }
    let found = child.finish()?;
    if stop && during != Some('T') {
        return Err(format!("the child was in state {during:?}, not stopped"));
    }
    // Between two bursts of the loop nothing is seen of it.
    if stop && before != Some('R') {
        return Err(format!("the child was in state {before:?}, not in its loop"));
    }
    let taken_ns = taken(&found, LatenessCause::Stopped);
    figures.push(format!("{:.1} ms", taken_ns as f64 / 1e6));
    Ok(taken_ns >= 200_000_000)
}
