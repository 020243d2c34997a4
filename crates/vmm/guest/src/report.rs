//! The report on a serial port, for other hosts: one line for each finding,
//! `name: value`, with a fixed first and last line.

use core::fmt::{self, Write};

use pvclock::Nanos;
use pvclock::counter::Counter;

use crate::clocks::GuestClocks;
use crate::cost;
use crate::discovery::Discovery;
use crate::hardware::Hardware;
use crate::layout::SERIAL;
use crate::request::RequestOutcome;
use crate::source::Source;

/// The first line, with the format's version.
pub const FIRST: &str = "parachron guest report 1";
/// The last line.
pub const LAST: &str = "parachron guest report ends";

/// Reads in a round of a cheap clock, and of one that exits to its host.
const CHEAP_READS: u64 = 1000;
const DEAR_READS: u64 = 20;
const ROUNDS: u32 = 20;
/// Between a clock's two readings.
const LATER: Nanos = Nanos(1_000_000);

/// A 16550, with waits for its transmitter.
struct Serial<'a, H>(&'a H);

impl<H: Hardware> Write for Serial<'_, H> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            // Line status, bit 5: the transmitter takes another byte.
            for _ in 0..100_000 {
                if self.0.port_read_8(SERIAL + 5) & 0x20 != 0 {
                    break;
                }
            }
            self.0.port_write_8(SERIAL, byte);
        }
        Ok(())
    }
}

/// Finds the clocks, measures the cost of each, and writes both.
pub fn send(hardware: &impl Hardware) {
    // A serial port cannot fail.
    let _ = write(hardware, &mut Serial(hardware));
}

fn write(hardware: &impl Hardware, out: &mut impl Write) -> fmt::Result {
    let found = Discovery::probe(hardware, 0);
    writeln!(out, "{FIRST}")?;
    writeln!(out, "hypervisor: {:?}", found.hypervisor)?;
    writeln!(out, "tsc-hz: {} ({:?})", found.tsc.0, found.frequency_from)?;
    writeln!(out, "kvm-clock: {} (stable: {})", found.has(Source::KvmClock), found.stable)?;
    let mut clocks = GuestClocks::new(hardware, found, 0);
    for source in Source::ALL {
        match read_on(hardware, &mut clocks, source) {
            Ok(nanos) => write!(out, "{}: {nanos} ns", source.name())?,
            Err(why) => {
                writeln!(out, "{}: not there ({why:?})", source.name())?;
                continue;
            }
        }
        let reads = match source {
            Source::Tsc | Source::KvmClock | Source::HyperVPage => CHEAP_READS,
            _ => DEAR_READS,
        };
        match cheapest(hardware, &clocks, source, reads) {
            Some((bare, cycles)) => {
                writeln!(out, ", {} cycles a read, bare tsc {}", cycles / reads, bare / reads)?
            }
            None => writeln!(out)?,
        }
    }
    writeln!(out, "{LAST}")
}

/// A clock's time some 1 ms after its first reading: that of a counter begins
/// with 0, and would be 0 of one that stands. The RTC is read once, at its second's
/// edge.
fn read_on(
    hardware: &impl Hardware,
    clocks: &mut GuestClocks,
    source: Source,
) -> Result<u64, RequestOutcome> {
    let first = clocks.read(hardware, source)?;
    let (false, Some(scale)) = (source == Source::Rtc, clocks.tsc_scale()) else {
        return Ok(first);
    };
    let counter = hardware.counter();
    let begun = counter.read_ordered();
    while scale.nanos(counter.read_ordered().wrapping_sub(begun)).is_some_and(|ns| ns < LATER) {
        hardware.pause();
    }
    clocks.read(hardware, source)
}

fn cheapest(
    hardware: &impl Hardware,
    clocks: &GuestClocks,
    source: Source,
    reads: u64,
) -> Option<(u64, u64)> {
    let mut least: Option<(u64, u64)> = None;
    for _ in 0..ROUNDS {
        let (bare, cycles) = cost::round(hardware, clocks, 0, source, reads).ok()?;
        let (least_bare, least_cycles) = least.unwrap_or((bare, cycles));
        least = Some((bare.min(least_bare), cycles.min(least_cycles)));
    }
    least
}
