//! Both sides of a kvm-clock page in one process: a host that writes it, a guest that reads it by
//! this CPU's counter.

use pvclock::counter::{Counter as _, CpuCounter};
use pvclock::kvm_clock::{LastTime, TimePage, TimeReader, TimeUpdate, TimeWriter};
use pvclock::{Hertz, Nanos, Scale};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // The counter's rate, by 20 ms of the system's clock.
    let (began, first) = (std::time::Instant::now(), CpuCounter.read_ordered());
    std::thread::sleep(std::time::Duration::from_millis(20));
    let (took, last) = (began.elapsed().as_nanos(), CpuCounter.read_ordered());
    let hertz = u128::from(last - first) * 1_000_000_000 / took;

    let page: TimePage = TimePage::new();
    TimeWriter::new(&page).write(&TimeUpdate {
        tsc_timestamp: last,
        system_time: Nanos(0),
        scale: Scale::from_hertz(Hertz(hertz as u64))?,
        stable: true,
    });

    let last = LastTime::default();
    for _ in 0..3 {
        println!("{}", TimeReader::new(&page).nanos_monotonic(&CpuCounter, &last)?);
    }
    Ok(())
}
