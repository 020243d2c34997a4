//! Holds the kernel's CLOCK_REALTIME to the line of a VMClock page by `adjtimex`, on a kernel as
//! it is, and prints how far the two lines are apart (docs/measurements/line.md).
//!
//! ```console
//! # cargo run -p parachron-daemon --example host_line -- /dev/vmclock0 3600
//! ```
//!
//! Steers the clock, as root: without `--look` it is for a machine that nothing else steers. For a
//! kernel without VMClock's driver `FILE --make PPM` writes a page into a file by this machine's own
//! counter, fast by so much; `FILE --change PPM NS` makes it faster, or has it jump by a disruption.

use std::error::Error;
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use keeper::LineLoop;
use linux::kernel_line::KernelLineReader;
use linux::vmclock::VmClockDevice;
use linux::{adjtimex, counter};
use pvclock::Nanos;
use pvclock::counter::Counter as _;
use pvclock::vmclock::{CounterId, VmClockFlags, VmClockInfo, VmClockStatus};
use pvclock::vvar::KernelLine;

/// Between two samples, ms, and by so much less at times: the kernel's ticks keep no step with it.
const SAMPLE_MS: u64 = 1000;
const VARIES: u64 = 4;

/// A start is not counted, s.
const SETTLES_S: f64 = 60.0;

fn made(line: &KernelLine, count: u64, ppm: f64) -> VmClockInfo {
    let at_ns = line.realtime_ns(count).unwrap_or_default() as u64;
    let ns_per_count = line.ns_per_count() * (1.0 + ppm * 1e-6);
    let flags = VmClockFlags::TIME_MAX_ERROR_VALID.union(VmClockFlags::PERIOD_MAX_ERROR_VALID);
    VmClockInfo {
        size: 4096,
        counter_id: CounterId::NATIVE,
        flags,
        clock_status: VmClockStatus::SYNCHRONISED,
        counter_value: count,
        period_shift: 20,
        period: (ns_per_count * 1e-9 * 2f64.powi(84)) as u64,
        time_sec: at_ns / 1_000_000_000,
        time_frac: ((u128::from(at_ns % 1_000_000_000) << 64) / 1_000_000_000) as u64,
        time_max_error: Nanos(1000),
        ..VmClockInfo::ZERO
    }
}

/// The page from now on faster by so much, or with a jump.
fn changed(
    page: VmClockInfo,
    count: u64,
    ppm: f64,
    ns: i64,
) -> Result<VmClockInfo, Box<dyn Error>> {
    let now = page.time_at(count)?;
    let time = (u128::from(now.seconds) << 64) + u128::from(now.fraction);
    let time = time.wrapping_add_signed((i128::from(ns) << 64) / 1_000_000_000);
    Ok(VmClockInfo {
        seq_count: page.seq_count.wrapping_add(2),
        disruption_marker: page.disruption_marker + u64::from(ns != 0),
        counter_value: count,
        period: page.period.wrapping_add_signed((page.period as f64 * ppm * 1e-6) as i64),
        time_sec: (time >> 64) as u64,
        time_frac: time as u64,
        ..page
    })
}

fn write(path: &Path, page: &VmClockInfo) -> Result<(), Box<dyn Error>> {
    let file = OpenOptions::new().write(true).create(true).truncate(false).open(path)?;
    Ok(file.write_all_at(&page.to_bytes(), 0)?)
}

/// Times in s and ns ahead: how many, within 10 ns, the worst, a histogram, Allan deviations.
fn report(samples: &[(f64, f64)]) {
    let counted: Vec<_> = samples.iter().filter(|(at_s, _)| *at_s >= SETTLES_S).collect();
    let size = |ns: f64| counted.iter().filter(|(_, ahead)| ahead.abs() <= ns).count();
    let worst = counted.iter().fold(0.0, |worst: f64, (_, ns)| worst.max(ns.abs()));
    let (within, all) = (size(10.0), counted.len());
    let percent = 100.0 * within as f64 / all.max(1) as f64;
    println!("{all} samples: {within} within 10 ns ({percent:.3} %), worst {worst:.2} ns");
    for below in [1.0, 2.0, 3.0, 5.0, 7.0, 10.0, 20.0, 50.0, 100.0] {
        println!("  up to {below:5} ns: {}", size(below));
    }
    for tau_s in [1.0, 4.0, 16.0, 64.0] {
        let at = |s: f64| counted.iter().find(|(at_s, _)| *at_s >= s).map(|(_, ns)| *ns);
        let first = counted.first().map_or(0.0, |(at_s, _)| *at_s);
        let phases: Vec<f64> = (0..).map_while(|nth| at(first + f64::from(nth) * tau_s)).collect();
        let second = |it: &[f64]| (it[2] - 2.0 * it[1] + it[0]).powi(2);
        let sum: f64 = phases.windows(3).map(second).sum();
        let windows = phases.len().saturating_sub(2).max(1) as f64;
        println!("  adev({tau_s} s) {:.2e}", (sum / windows / 2.0).sqrt() / tau_s * 1e-9);
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let [page, then @ ..] = &words[..] else {
        return Err("host_line PAGE SECONDS [--look] | --make PPM | --change PPM NS".into());
    };
    let path = Path::new(page);
    let reader = KernelLineReader::open()?;
    let count = || counter::CpuCounter.read_ordered();
    match *then {
        ["--make", ppm] => write(path, &made(&reader.read()?, count(), ppm.parse()?)),
        ["--change", ppm, ns] => {
            let page = VmClockDevice::open(path)?.read()?;
            write(path, &changed(page, count(), ppm.parse()?, ns.parse()?)?)
        }
        [seconds] => follow(path, &reader, seconds.parse()?, true),
        [seconds, "--look"] => follow(path, &reader, seconds.parse()?, false),
        _ => Err("see the head of this program".into()),
    }
}

/// Samples both lines for so many seconds.
fn follow(
    path: &Path,
    reader: &KernelLineReader,
    seconds: f64,
    is_steered: bool,
) -> Result<(), Box<dyn Error>> {
    let count = || counter::CpuCounter.read_ordered();
    let device = VmClockDevice::open(path)?;
    let (mut steering, mut samples, mut next_s) = (LineLoop::default(), Vec::new(), 0.0);
    let begun = count();
    loop {
        let (page, line, now) = (device.read()?, reader.read()?, count());
        let at_s = now.wrapping_sub(begun) as f64 * page.ns_per_count() * 1e-9;
        let ahead_ns = line.ahead_ns(page, now)?;
        println!("{at_s:9.3} s: {ahead_ns:10.2} ns");
        samples.push((at_s, ahead_ns));
        if at_s >= seconds {
            break;
        }
        if is_steered && (at_s >= next_s || !steering.has_seen(&page)) {
            let steer = steering.look((&line, page), now, adjtimex::read()?.frequency)?;
            let step_ns = steer.step_ns.or(steer.catches_up.then_some(0));
            adjtimex::set_frequency(steer.frequency)?;
            step_ns.map_or(Ok(()), |by_ns| adjtimex::set_offset(by_ns / 1000))?;
            next_s = at_s + steer.next_ns as f64 * 1e-9;
            println!("           frequency {} {step_ns:?}", steer.frequency);
        }
        let sample = Duration::from_millis(SAMPLE_MS - now % (SAMPLE_MS / VARIES));
        let look = Duration::from_secs_f64((next_s - at_s).max(0.001));
        sleep(if is_steered { sample.min(look) } else { sample });
    }
    println!("mult {}, shift {}", reader.read()?.mult, reader.read()?.shift);
    report(&samples);
    Ok(())
}
