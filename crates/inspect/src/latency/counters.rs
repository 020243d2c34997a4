//! What the kernel counts of this thread and of its CPU.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use facts::Fact;
use facts::running::{
    INTERRUPTS, SOFTIRQS, parse_interrupts, parse_schedstat, parse_softirqs, parse_throttled,
    throttling_files,
};
use instruments::latency::around::{Counts, Served};
use linux::clock::LinuxClock;
use linux::reread::Reread;
use signal_hook::consts::SIGCONT;

use super::now_ns;

const SCHEDSTAT: &str = "/proc/thread-self/schedstat";
const OWN_GROUPS: &str = "/proc/self/cgroup";

/// A row for each interrupt, 11 characters a CPU.
const TABLE_BYTES: usize = 1 << 20;

/// MSR_SMI_COUNT, of Intel's processors (Software Developer's Manual, volume 4).
const SMI_COUNT: u64 = 0x34;

/// Stops of this process that have ended: SIGCONT, counted.
#[derive(Debug, Clone, Default)]
pub(super) struct Stops {
    continued: Arc<AtomicBool>,
    count: Arc<AtomicU64>,
}

impl Stops {
    pub(super) fn new() -> Self {
        let stops = Self::default();
        // Where SIGCONT cannot be caught, a stop counts as stolen.
        let _ = signal_hook::flag::register(SIGCONT, Arc::clone(&stops.continued));
        stops
    }

    fn ended(&self) -> u64 {
        if self.continued.swap(false, Ordering::Relaxed) {
            self.count.fetch_add(1, Ordering::Relaxed);
        }
        self.count.load(Ordering::Relaxed)
    }
}

/// The counters of the thread that opened them, on one CPU.
pub(super) struct Counters {
    schedule: Option<Reread>,
    groups: Vec<Reread>,
    stops: Stops,
    cpu: u32,
    interrupts: Option<File>,
    softirqs: Option<File>,
    smis: Option<File>,
    buffer: Vec<u8>,
}

impl Counters {
    /// Opens those that this machine has: what it lacks is not counted.
    pub(super) fn open(cpu: u32, stops: &Stops) -> Self {
        let groups = std::fs::read_to_string(OWN_GROUPS).unwrap_or_default();
        let files = throttling_files(&groups);
        Self {
            schedule: Reread::open(Path::new(SCHEDSTAT)).ok(),
            groups: files.iter().filter_map(|path| Reread::open(Path::new(path)).ok()).collect(),
            stops: stops.clone(),
            cpu,
            interrupts: File::open(INTERRUPTS).ok(),
            softirqs: File::open(SOFTIRQS).ok(),
            smis: File::open(format!("/dev/cpu/{cpu}/msr")).ok(),
            buffer: Vec::new(),
        }
    }

    /// The CPU that it counts.
    pub(super) fn cpu(&self) -> u32 {
        self.cpu
    }

    /// Those of the thread: some microseconds.
    pub(super) fn thread(&self) -> Counts {
        let mut bytes = [0; 512];
        let mut read = |file: &Reread| {
            let length = file.read(&mut bytes).ok()?;
            Some(String::from_utf8_lossy(&bytes[..length]).into_owned())
        };
        let schedule = self.schedule.as_ref().and_then(&mut read);
        let times = schedule.map(|text| parse_schedstat(&text));
        let throttled = self.groups.iter().filter_map(read).map(|text| parse_throttled(&text));
        let throttled_ns =
            throttled.fold(None, |sum: Option<u64>, ns| Some(sum.unwrap_or(0).saturating_add(ns)));
        Counts {
            ran_ns: LinuxClock::ThreadCputime.read_ns(),
            waited_ns: times.and_then(|times| times.value().map(|times| times.waited_ns)),
            throttled_ns,
            continued: self.stops.ended(),
            served: None,
            at_ns: now_ns(),
        }
    }

    /// Those of its CPU too: a tenth of a millisecond.
    pub(super) fn all(&mut self) -> Counts {
        let served = self.served();
        Counts { served, ..self.thread() }
    }

    fn served(&mut self) -> Option<Served> {
        let cpu = self.cpu;
        let interrupts = whole(self.interrupts.as_ref(), &mut self.buffer)
            .and_then(|text| parse_interrupts(&text, cpu).value().copied())?;
        let softirqs =
            whole(self.softirqs.as_ref(), &mut self.buffer).map(|text| parse_softirqs(&text, cpu));
        let mut count = [0; 8];
        let smis = self.smis.as_ref().and_then(|msr| msr.read_exact_at(&mut count, SMI_COUNT).ok());
        Some(Served {
            ns: now_ns(),
            ticks: interrupts.ticks,
            interrupts: interrupts.others,
            softirqs: match softirqs {
                Some(Fact::Known(count)) => count,
                _ => 0,
            },
            smis: smis.map_or(0, |()| u64::from_ne_bytes(count)),
        })
    }
}

/// A file of several pages, which the kernel shows page by page.
fn whole<'b>(file: Option<&File>, buffer: &'b mut Vec<u8>) -> Option<std::borrow::Cow<'b, str>> {
    let mut filled = 0;
    while filled < TABLE_BYTES {
        buffer.resize(filled + 4096, 0);
        match file?.read_at(&mut buffer[filled..], filled as u64) {
            Ok(0) => break,
            Ok(more) => filled += more,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => return None,
        }
    }
    Some(String::from_utf8_lossy(&buffer[..filled]))
}

#[cfg(test)]
mod tests {
    use instruments::latency::around::PassedTime;

    use super::*;

    #[test]
    fn a_thread_that_slept_neither_ran_nor_waited() {
        let cpu = linux::cpus::allowed().unwrap()[0];
        let _pinned = linux::cpus::pin(cpu).unwrap();
        let mut counters = Counters::open(cpu, &Stops::new());
        let first = counters.all();
        std::thread::sleep(std::time::Duration::from_millis(20));
        let passed = PassedTime::between(&first, &counters.all());
        assert!(passed.ns >= 20_000_000 && passed.lost_ns >= 10_000_000, "{passed:?}");
        if let Some(served) = passed.served {
            assert!(served.ticks > 0, "{served:?}");
        } else {
            crate::skipped("no /proc/interrupts");
        }
    }
}
