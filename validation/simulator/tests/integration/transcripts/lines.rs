//! A transcript of a kernel's line: how the kernel rewrote it at each tick, to the last bit.

use simulator::kernel_clock::timex::mode;
use simulator::kernel_clock::{KernelClockSource, LinuxKernel, Timekeeper, Version};

use super::replay::timex;

const TRANSCRIPT: &str = include_str!("../../../../../testdata/timekeeper/linux-7.3.lines");

/// The line as the transcript has it.
#[derive(Debug, PartialEq)]
struct Line {
    counter: u64,
    mult: u32,
    seconds: i64,
    fraction: u64,
}

impl Line {
    fn of(keeper: &Timekeeper) -> Self {
        let (seconds, fraction) = keeper.line_base();
        Self { counter: keeper.ticked(), mult: keeper.mult(), seconds, fraction }
    }

    /// Counts are added up at the old multiplier, and the line is turned `rest` counts later.
    fn update(&mut self, counts: u64, change: i64, rest: i64, second: u64) {
        self.counter += counts;
        self.fraction += counts * u64::from(self.mult);
        self.fraction = self.fraction.checked_add_signed(-change * rest).unwrap();
        self.mult = self.mult.checked_add_signed(change as i32).unwrap();
        self.seconds += (self.fraction / second).cast_signed();
        self.fraction %= second;
    }
}

#[test]
fn linux_7_3_rewrites_its_line_as_the_model_does() {
    let mut lines = TRANSCRIPT.lines().filter(|line| !line.starts_with('#'));
    let mut next = || {
        let line = lines.next()?;
        let numbers: Vec<i64> =
            line.split([' ', '*']).filter_map(|word| word.parse().ok()).collect();
        Some((line, numbers))
    };
    let (_, head) = next().unwrap();
    let kernel = LinuxKernel::new(Version(7, 3, 4), head[0] as u32);
    let source = KernelClockSource::tsc(head[1].cast_unsigned());
    let second = 1_000_000_000 << source.shift;
    let mut keeper = Timekeeper::boot(kernel, source, 0, 1_700_000_000_000_000_000);
    let mut seen = Line::of(&keeper);
    let (mut updates, mut calls) = (0, 0);
    while let Some((line, numbers)) = next() {
        match (line.split(' ').next(), numbers.as_slice()) {
            (Some("set"), &[counter, seconds, ns]) => {
                let realtime = i128::from(seconds) * 1_000_000_000 + i128::from(ns);
                keeper.set_realtime(counter.cast_unsigned(), realtime).unwrap();
                seen = Line::of(&keeper);
            }
            (Some("adjust"), &[rest, change, ref fields @ ..]) => {
                let (mut timex, told) = (timex(&fields[..11]), self::timex(&fields[12..]));
                if timex.modes & mode::SETOFFSET == 0 {
                    seen.update(0, change, rest, second);
                } else {
                    seen.update(rest.cast_unsigned(), change, 0, second);
                    seen.fraction += timex.fraction.cast_unsigned() << source.shift;
                }
                let at = keeper.ticked() + rest.cast_unsigned();
                let result = keeper.adjtimex(at, &mut timex).unwrap();
                // When it was called is known to a tick.
                (timex.seconds, timex.fraction) = (told.seconds, told.fraction);
                assert_eq!((i64::from(result), timex), (fields[11], told), "{line}");
                assert_eq!(Line::of(&keeper), seen, "{line}");
                calls += 1;
            }
            (_, &[.., ticks, change, rest]) => {
                let times = if line.contains('*') { numbers[0] } else { 1 };
                for _ in 0..times {
                    let counts = ticks.cast_unsigned() * keeper.tick_counts();
                    keeper.interrupt(keeper.ticked() + counts + rest.cast_unsigned());
                    seen.update(counts, change, rest, second);
                    updates += 1;
                    assert_eq!(Line::of(&keeper), seen, "{line}, update {updates}");
                }
            }
            _ => panic!("not understood: {line}"),
        }
    }
    assert_eq!((updates, calls), (48_670, 34));
}
