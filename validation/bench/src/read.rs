//! A clock read: ours, the bare instruction, the vDSO's, and the peers'.
//!
//! The page read here is written by our own writer for this machine's TSC: the
//! same layout and code as a live page, and available under any clocksource.

use std::hint::black_box;
use std::time::{Duration, Instant};

use inspect::clocksource_switch::Switchboard;
use linux::clock::LinuxClock;
use linux::counter::{self, Counter, CpuCounter};

use pvclock::hyperv::{ReferencePage, ReferenceReader, ReferenceScale, ReferenceWriter};
use pvclock::kvm_clock::{LastTime, TimeInfo, TimePage, TimeReader, TimeUpdate, TimeWriter};
use pvclock::shared::{Aligned, Split};
use pvclock::vmclock::{CounterId, MAGIC, VmClockInfo, VmClockPage, VmClockReader};
use pvclock::{Hertz, Nanos, Scale};

#[cfg(target_arch = "x86_64")]
use crate::c_calls;
use crate::judge;
use crate::rounds::{self, CALLS, Contender};
use crate::sources;

/// How long the TSC is measured before the page is written, and how long the
/// clocks are compared.
const CALIBRATION: Duration = Duration::from_millis(200);
/// Permitted error of a clock over [`CALIBRATION`]: more than a preemption
/// between two reads, and less than any wrong factor.
const TOLERANCE: f64 = 0.02;

const RDTSC: &str = "rdtsc, bare";
const LFENCE_RDTSC: &str = "lfence; rdtsc, bare";
const RDTSCP: &str = "rdtscp, bare";
const RAW: &str = "pvclock raw ticks";
const UNORDERED: &str = "pvclock ns, unordered";
const ORDERED: &str = "pvclock ns, ordered";
const VMCLOCK: &str = "pvclock VMClock ns, unordered";
const C_ORDERED: &str = "pvclock_kvm_read_ordered, from C";
const QUANTA: &str = "quanta Clock::now";
const VDSO: &str = "clock_gettime(MONOTONIC)";

/// The command line's options.
pub(crate) struct Options {
    each_source: bool,
    rounds: u32,
}

impl Options {
    pub(crate) fn parse(mut words: &[&str]) -> Option<Self> {
        let mut options = Self { each_source: false, rounds: 2_000 };
        loop {
            words = match words {
                [] => return Some(options),
                ["--each-source", rest @ ..] => {
                    options.each_source = true;
                    rest
                }
                ["--rounds", rounds, rest @ ..] => {
                    options.rounds = rounds.parse().ok().filter(|&rounds| rounds > 0)?;
                    rest
                }
                _ => return None,
            }
        }
    }
}

/// Runs it; whether every bar is met.
pub(crate) fn run(options: &Options) -> Result<bool, String> {
    if options.each_source {
        return sources::each(|source| one_source(source, options.rounds));
    }
    let current = Switchboard::live().current().map_err(|error| error.to_string())?;
    let met = one_source(&current, options.rounds)?;
    if current != "kvm-clock" {
        println!("\nnot measured: the vDSO under kvm-clock (run with --each-source as root)");
    }
    Ok(met)
}

fn one_source(source: &str, rounds: u32) -> Result<bool, String> {
    let tsc_hz = measure_tsc_hz();
    let update = TimeUpdate {
        tsc_timestamp: CpuCounter.read(),
        system_time: Nanos(0),
        scale: Scale::from_hertz(Hertz(tsc_hz)).map_err(|error| error.to_string())?,
        stable: true,
    };
    let aligned = TimePage::<Aligned>::new();
    TimeWriter::new(&aligned).write(&update);
    let split = TimePage::<Split>::from_info(&TimeInfo::default());
    TimeWriter::new(&split).write(&update);
    let unstable = TimePage::<Aligned>::new();
    TimeWriter::new(&unstable).write(&TimeUpdate { stable: false, ..update });
    let reference = ReferencePage::<Aligned>::new();
    let scale = ReferenceScale::from_hertz(Hertz(tsc_hz)).map_err(|error| error.to_string())?;
    ReferenceWriter::new(&reference).write(scale, 0);
    let vmclock = vmclock_page(tsc_hz)?;

    let reader = TimeReader::new(&aligned);
    let split = TimeReader::new(&split);
    let unstable = TimeReader::new(&unstable);
    let hyperv = ReferenceReader::new(&reference);
    let vmclock = VmClockReader::new(&vmclock).map_err(|error| error.to_string())?;
    let last = LastTime::new();
    let quanta = quanta::Clock::new();
    assert_agreement(&reader, &hyperv, &quanta)?;

    let mut contenders = vec![
        Contender::new(RDTSC, || CpuCounter.read()),
        Contender::new(LFENCE_RDTSC, || CpuCounter.read_ordered()),
        // What any conversion needs after it: a bound on how cheap a page read can be.
        Contender::new("lfence; rdtsc, and one product", || {
            ((u128::from(CpuCounter.read_ordered()) * (0xc4ec_4ec4 << 32)) >> 64) as u64
        }),
        Contender::new(RAW, || reader.ticks(&CpuCounter)),
        Contender::new(UNORDERED, || reader.nanos(&CpuCounter).expect("a good page")),
        Contender::new(ORDERED, || reader.nanos_ordered(&CpuCounter).expect("a good page")),
        Contender::new("pvclock ns, 4-byte aligned page", || {
            split.nanos(&CpuCounter).expect("a good page")
        }),
        Contender::new("pvclock ns, monotonic, not stable", || {
            unstable.nanos_monotonic(&CpuCounter, &last).expect("a good page")
        }),
        Contender::new("pvclock Hyper-V 100 ns, unordered", || {
            hyperv.units_100ns(&CpuCounter).expect("a good page")
        }),
        Contender::new(VMCLOCK, || vmclock.now(&CpuCounter).expect("a good page")),
        Contender::new(QUANTA, || quanta.now()),
        Contender::new("minstant Instant::now", minstant::Instant::now),
        Contender::new("fastant Instant::now", fastant::Instant::now),
        Contender::new("std Instant::now", Instant::now),
        Contender::new(VDSO, c_calls::monotonic_ns),
    ];
    if counter::is_self_ordered() {
        contenders.push(Contender::new(RDTSCP, counter::self_ordered));
    }
    #[cfg(target_arch = "x86_64")]
    contenders.push(Contender::new(C_ORDERED, || c_calls::kvm_read_ordered(&aligned)));
    rounds::run(&mut contenders, rounds);
    Ok(print(source, rounds, tsc_hz, &contenders))
}

fn print(source: &str, rounds: u32, tsc_hz: u64, contenders: &[Contender<'_>]) -> bool {
    let min_of = |name: &str| {
        contenders.iter().find(|row| row.name == name).map_or(f64::NAN, Contender::min_ns)
    };
    println!("clocksource {source}, TSC {:.3} MHz", tsc_hz as f64 / 1e6);
    println!("{rounds} interleaved rounds of {CALLS} calls; ns a call\n");
    println!("{:<36} {:>8} {:>8} {:>10}", "", "min", "median", "min/rdtsc");
    for row in contenders {
        let ratio = row.min_ns() / min_of(RDTSC);
        println!("{:<36} {:>8.2} {:>8.2} {ratio:>10.2}", row.name, row.min_ns(), row.median_ns());
    }
    println!();
    // What orders a counter read at the least cost on this machine. The next
    // ordered read waits for the arithmetic of the last: docs/measurements/read.md
    // has what each part costs, and why 1.05 is missed on a fast counter.
    let by_rdtscp = min_of(RDTSCP) < min_of(LFENCE_RDTSC);
    let cheapest = if by_rdtscp { RDTSCP } else { LFENCE_RDTSC };
    let mut bars = vec![
        (RAW, RDTSC, 1.05),
        (UNORDERED, QUANTA, 1.00),
        (UNORDERED, RDTSC, 1.30),
        (VMCLOCK, RDTSC, 1.40),
        (ORDERED, cheapest, 1.05),
    ];
    if cfg!(target_arch = "x86_64") {
        bars.push((C_ORDERED, VDSO, 0.95));
    }
    if source == "kvm-clock" {
        bars.push((ORDERED, VDSO, 0.80));
    }
    let judged = bars.into_iter().map(|(ours, theirs, bar)| {
        judge(&format!("{ours} / {theirs}"), min_of(ours) / min_of(theirs), bar, "")
    });
    judged.fold(true, |all, met| all & met)
}

/// A page whose time is 0 now.
fn vmclock_page(tsc_hz: u64) -> Result<VmClockPage, String> {
    let mut bytes = [0; VmClockInfo::SIZE];
    let [magic, size] = [MAGIC, VmClockInfo::SIZE as u32].map(u32::to_le_bytes);
    bytes[..4].copy_from_slice(&magic);
    bytes[4..8].copy_from_slice(&size);
    bytes[8] = 1; // the layout's version
    let info = VmClockInfo::from_bytes(&bytes).map_err(|error| error.to_string())?;
    let (counter_id, counter_value, period_shift) = (CounterId::NATIVE, CpuCounter.read(), 26);
    let period = ((1 << (64 + period_shift)) / u128::from(tsc_hz)) as u64;
    let info = VmClockInfo { counter_id, counter_value, period, period_shift, ..info };
    Ok(VmClockPage::from_info(&info))
}

/// The TSC's rate against CLOCK_MONOTONIC_RAW.
fn measure_tsc_hz() -> u64 {
    let (start, tsc_start) = (raw_ns(), CpuCounter.read_ordered());
    wait_until_raw(start + CALIBRATION.as_nanos() as u64);
    let (end, tsc_end) = (raw_ns(), CpuCounter.read_ordered());
    ((tsc_end - tsc_start) as f64 * 1e9 / (end - start) as f64).round() as u64
}

fn raw_ns() -> u64 {
    LinuxClock::MonotonicRaw.read_ns().unwrap_or_default()
}

fn wait_until_raw(end_ns: u64) {
    while raw_ns() < end_ns {
        black_box(());
    }
}

/// Verifies that all clocks measure the same interval: a fast wrong result wins
/// no benchmark.
fn assert_agreement(
    reader: &TimeReader<'_>,
    hyperv: &ReferenceReader<'_>,
    quanta: &quanta::Clock,
) -> Result<(), String> {
    let now = || -> Result<[u64; 7], String> {
        let ours = reader.nanos(&CpuCounter).map_err(|error| error.to_string())?.0;
        let ordered = reader.nanos_ordered(&CpuCounter).map_err(|error| error.to_string())?.0;
        let converted =
            reader.nanos_at(reader.ticks(&CpuCounter)).map_err(|error| error.to_string())?.0;
        let units = hyperv.units_100ns(&CpuCounter).map_err(|error| error.to_string())?;
        let theirs = quanta.delta_as_nanos(0, quanta.raw());
        let vdso = LinuxClock::Monotonic.read_ns().unwrap_or_default();
        Ok([raw_ns(), ours, ordered, converted, units * 100, theirs, vdso])
    };
    let start = now()?;
    wait_until_raw(start[0] + CALIBRATION.as_nanos() as u64);
    let end = now()?;
    let elapsed = (end[0] - start[0]) as f64;
    let names = ["", UNORDERED, ORDERED, RAW, "pvclock Hyper-V", QUANTA, VDSO];
    for ((name, start), end) in names.iter().zip(start).zip(end).skip(1) {
        let theirs = (end - start) as f64;
        if (theirs / elapsed - 1.0).abs() > TOLERANCE {
            return Err(format!("{name} counted {theirs} ns in {elapsed} ns"));
        }
    }
    Ok(())
}
