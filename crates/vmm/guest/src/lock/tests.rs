//! The lock in the interleavings that the memory model allows, by loom, of two and three
//! vCPUs and as many preemptions as each test names: it excludes,
//! nobody waits for ever, and no kick is lost between a guest that goes to sleep and
//! the host's own state machine (`host::hypercall`), which is the one that runs in
//! the lab. A vCPU that sleeps with no kick to come is a deadlock, which loom finds.

use super::{Lock, LockWord, Waiter, Waiting};
use std::sync::atomic::AtomicBool;

use host::VcpuId;
use host::hypercall::{Features, Halt, HypercallAction, HypercallRegisters, Hypercalls, KICK_CPU};
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::sync::{Arc, Condvar, Mutex};

const VCPUS: usize = 3;

#[derive(Debug)]
struct Loom(AtomicU32);

impl LockWord for Loom {
    fn load(&self) -> u32 {
        self.0.load(Ordering::Acquire)
    }

    fn store(&self, value: u32) {
        self.0.store(value, Ordering::Release);
    }

    fn swap(&self, value: u32) -> u32 {
        self.0.swap(value, Ordering::AcqRel)
    }

    fn replace(&self, old: u32, new: u32) -> bool {
        self.0.compare_exchange(old, new, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

/// The host: its state machine, and vCPUs' threads that it wakes.
struct Host {
    calls: Mutex<Hypercalls>,
    /// By vCPU: whether its thread was woken.
    threads: [(Mutex<bool>, Condvar); VCPUS],
}

impl Host {
    fn new() -> Self {
        let mut calls = Hypercalls::new(Features::ALL, false);
        (0..VCPUS).for_each(|vcpu| calls.add(VcpuId(vcpu as u32)));
        let threads = std::array::from_fn(|_| (Mutex::new(false), Condvar::new()));
        Self { calls: Mutex::new(calls), threads }
    }
}

/// A vCPU of it.
struct Vcpu<'a> {
    host: &'a Host,
    index: usize,
    seen: &'a Seen,
}

/// What came to pass in any interleaving; not of loom, so it outlives each.
#[derive(Debug, Default)]
struct Seen {
    /// A vCPU was woken by a kick.
    woken: AtomicBool,
    /// The kick came first: a host that did not remember it would let it sleep.
    kicked_before: AtomicBool,
}

impl Waiter for Vcpu<'_> {
    fn pause(&mut self) {
        loom::thread::yield_now();
    }

    fn give_way(&mut self, to: usize) {
        assert_ne!(to, self.index, "a vCPU waits for another");
        loom::thread::yield_now();
    }

    fn halt(&mut self) {
        let answer = self.host.calls.lock().unwrap().halt(VcpuId(self.index as u32));
        if answer == Halt::GoOn {
            self.seen.kicked_before.store(true, Ordering::Relaxed);
            return;
        }
        let (woken, changed) = &self.host.threads[self.index];
        let mut woken = woken.lock().unwrap();
        while !*woken {
            woken = changed.wait(woken).unwrap();
        }
        *woken = false;
    }

    fn kick(&mut self, vcpu: usize) {
        let arguments = [0, vcpu as u64, 0, 0];
        let call =
            HypercallRegisters { number: KICK_CPU, arguments, is_64_bit: true, privilege: 0 };
        let answer = self.host.calls.lock().unwrap().call(VcpuId(self.index as u32), &call);
        if let HypercallAction::Wake(VcpuId(vcpu)) = answer.action {
            let (woken, changed) = &self.host.threads[vcpu as usize];
            *woken.lock().unwrap() = true;
            self.seen.woken.store(true, Ordering::Relaxed);
            changed.notify_one();
        }
    }
}

/// `vcpus` vCPUs each take the lock `takes` times and count, with loads and stores
/// that only the lock keeps apart.
fn model(way: Waiting, vcpus: usize, takes: usize, preemptions: usize) -> std::sync::Arc<Seen> {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    let seen = std::sync::Arc::new(Seen::default());
    let all = seen.clone();
    builder.check(move || {
        let lock = Arc::new(Lock::<Loom, VCPUS>::from_words(|| Loom(AtomicU32::new(0))));
        let host = Arc::new(Host::new());
        let count = Arc::new(AtomicU32::new(0));
        let seen = all.clone();
        let run = move |lock: &Lock<Loom, VCPUS>, host: &Host, count: &AtomicU32, index| {
            let mut vcpu = Vcpu { host, index, seen: &seen };
            for _ in 0..takes {
                lock.take(index, way, 1, &mut vcpu);
                let before = count.load(Ordering::Relaxed);
                count.store(before + 1, Ordering::Relaxed);
                lock.free(index, way, &mut vcpu);
            }
        };
        let threads: Vec<_> = (1..vcpus)
            .map(|index| {
                let (lock, host, count, run) =
                    (lock.clone(), host.clone(), count.clone(), run.clone());
                loom::thread::spawn(move || run(&lock, &host, &count, index))
            })
            .collect();
        run(&lock, &host, &count, 0);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(count.load(Ordering::Relaxed) as usize, vcpus * takes);
    });
    seen
}

#[test]
fn no_kick_is_lost_between_two_that_halt() {
    let seen = model(Waiting::Paravirtual, 2, 2, 3);
    // Else the model shows nothing.
    assert!(seen.woken.load(Ordering::Relaxed) && seen.kicked_before.load(Ordering::Relaxed));
}

#[test]
fn no_kick_is_lost_among_three_that_halt() {
    let seen = model(Waiting::Paravirtual, 3, 1, 2);
    assert!(seen.woken.load(Ordering::Relaxed) && seen.kicked_before.load(Ordering::Relaxed));
}

#[test]
fn each_other_way_excludes_and_ends() {
    for way in [Waiting::Spin, Waiting::Yield, Waiting::Unfair] {
        let seen = model(way, 2, 2, 2);
        assert!(!seen.woken.load(Ordering::Relaxed), "{way:?} kicks nobody");
    }
}
