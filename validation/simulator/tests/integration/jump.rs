//! A jump is the walk: whatever is done to two timekeepers, the one that jumps is
//! in the same state, to the last bit, as the one that takes each tick.

use proptest::prelude::*;
use simulator::kernel_clock::timex::{mode, status};
use simulator::kernel_clock::{KernelClockSource, LinuxKernel, Timekeeper, Timex, Version};
use test_size::size;

/// What is done, in ns or counts of the source.
#[derive(Debug, Clone)]
enum Deed {
    Advance {
        ns: u64,
    },
    /// All ticks of this time in one, as after a sleep without them.
    Sleep {
        ns: u64,
    },
    Adjust(Timex),
    /// To so many ns before a second; `day`: the last of a day.
    Set {
        before: i64,
        day: bool,
    },
    Change(KernelClockSource),
    Suspend {
        slept: u64,
    },
}

fn source() -> impl Strategy<Value = KernelClockSource> {
    prop_oneof![
        Just(KernelClockSource::user_mode()),
        Just(KernelClockSource::hpet(14_318_180)),
        Just(KernelClockSource::acpi_pm()),
        Just(KernelClockSource::kvm_clock()),
        (1_000_000..5_000_000_u64).prop_map(KernelClockSource::tsc),
    ]
}

fn timex() -> impl Strategy<Value = Timex> {
    let modes = prop::sample::select(vec![
        mode::OFFSET,
        mode::FREQUENCY,
        mode::STATUS,
        mode::STATUS | mode::OFFSET,
        mode::TIMECONST,
        mode::TICK,
        mode::TICK | mode::FREQUENCY,
        mode::SETOFFSET,
        mode::SETOFFSET | mode::NANO,
        mode::NANO,
        mode::MICRO,
        mode::MAXERROR,
        mode::OFFSET_SINGLESHOT,
    ]);
    let bits = prop::sample::select(vec![
        0,
        status::PLL,
        status::PLL | status::FLL,
        status::PLL | status::INS,
        status::INS,
        status::DEL,
        status::PLL | status::FREQHOLD,
    ]);
    let offset = prop_oneof![-2000..2000_i64, -600_000_000..600_000_000_i64];
    let frequency = prop_oneof![-100..100_i64, -40_000_000..40_000_000_i64];
    let step = (-3..3_i64, 0..1_000_000_i64);
    (modes, bits, offset, frequency, 0..11_i64, 9000..=11_000_i64, step).prop_map(
        |(modes, status, offset, frequency, constant, tick, (seconds, fraction))| {
            let max_error = 15_999_000;
            let set = Timex { modes, offset, frequency, status, constant, ..Timex::default() };
            Timex { tick, seconds, fraction, max_error, ..set }
        },
    )
}

fn deed() -> impl Strategy<Value = Deed> {
    prop_oneof![
        4 => (0..3_000_000_000_u64).prop_map(|ns| Deed::Advance { ns }),
        2 => (0..50_000_000_u64).prop_map(|ns| Deed::Advance { ns }),
        1 => (0..2_000_000_000_u64).prop_map(|ns| Deed::Sleep { ns }),
        4 => timex().prop_map(Deed::Adjust),
        1 => (0..2_000_000_000_i64, any::<bool>()).prop_map(|(before, day)| Deed::Set { before, day }),
        1 => source().prop_map(Deed::Change),
        1 => (0..100_000_000_000_u64).prop_map(|slept| Deed::Suspend { slept }),
    ]
}

/// One of the two, and its counter.
#[derive(Debug, Clone, PartialEq)]
struct Machine {
    keeper: Timekeeper,
    counter: u64,
}

impl Machine {
    fn go_on(&mut self, ns: u64) {
        let counts = u128::from(ns) * u128::from(self.keeper.source().hz) / 1_000_000_000;
        self.counter += u64::try_from(counts).unwrap();
    }

    fn take(&mut self, deed: &Deed, advance: fn(&mut Timekeeper, u64)) {
        match *deed {
            Deed::Advance { ns } => {
                self.go_on(ns);
                advance(&mut self.keeper, self.counter);
            }
            Deed::Sleep { ns } => {
                self.go_on(ns);
                self.keeper.interrupt(self.counter);
            }
            Deed::Adjust(mut timex) => drop(self.keeper.adjtimex(self.counter, &mut timex)),
            Deed::Set { before, day } => {
                let second = if day { 86_400 * 20_000 } else { 86_400 * 20_000 + 77 };
                let to = i128::from(second) * 1_000_000_000 - i128::from(before);
                self.keeper.set_realtime(self.counter, to).unwrap();
            }
            Deed::Change(source) => {
                self.keeper.change_source(self.counter, source, 123_456);
                self.counter = 123_456;
            }
            Deed::Suspend { slept } => self.keeper.suspend(self.counter, self.counter + 5, slept),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: size(10_000, 100_000), ..ProptestConfig::default() })]

    #[test]
    fn a_jump_is_the_walk(
        source in source(),
        version in prop::sample::select(vec![Version(6, 12, 101), Version(7, 3, 4)]),
        tick_hz in prop::sample::select(vec![100, 250, 300, 1000]),
        start in 0..1_000_000_000_000_u64,
        deeds in prop::collection::vec(deed(), 1..8),
    ) {
        let keeper = Timekeeper::boot(LinuxKernel::new(version, tick_hz), source, start, 1_700_000_000_000_000_000);
        let mut jumps = Machine { keeper, counter: start };
        let mut walks = jumps.clone();
        for deed in &deeds {
            jumps.take(deed, Timekeeper::advance_to);
            walks.take(deed, Timekeeper::walk_to);
            prop_assert_eq!(&jumps, &walks, "after {:?}", deed);
        }
    }
}

#[test]
fn a_day_of_steady_seconds_is_the_walk_too() {
    let kernel = LinuxKernel::new(Version(6, 12, 101), 100);
    let keeper = Timekeeper::boot(kernel, KernelClockSource::tsc(2_399_997), 7, 1_700_000_000);
    let mut set = Timex { modes: mode::FREQUENCY, frequency: 1_234_567, ..Timex::default() };
    let (mut jumps, mut walks) = (keeper, keeper);
    for keeper in [&mut jumps, &mut walks] {
        keeper.adjtimex(1_000_007, &mut set).unwrap();
    }
    let end = 86_400 * 2_399_997_000;
    jumps.advance_to(end);
    walks.walk_to(end);
    assert_eq!(jumps, walks);
}
