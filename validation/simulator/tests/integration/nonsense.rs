//! Whatever a program hands to the kernel, the model refuses it or goes on.

use proptest::prelude::*;
use simulator::kernel_clock::{KernelClockSource, LinuxKernel, Timekeeper, Timex, Version};

fn number() -> impl Strategy<Value = i64> {
    prop_oneof![any::<i64>(), -1_000_000..1_000_000_i64, Just(i64::MIN), Just(i64::MAX)]
}

fn timex() -> impl Strategy<Value = Timex> {
    let errors = (number(), number());
    let times = (number(), number(), number());
    (any::<u32>(), number(), number(), errors, any::<i32>(), number(), times).prop_map(
        |(modes, offset, frequency, errors, status, constant, (tick, seconds, fraction))| {
            let (max_error, estimated_error) = errors;
            let first = Timex { modes, offset, frequency, max_error, ..Timex::default() };
            Timex { estimated_error, status, constant, tick, seconds, fraction, ..first }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4096, ..ProptestConfig::default() })]

    #[test]
    fn nonsense_is_refused_or_survived(
        hz in prop_oneof![any::<u64>(), 0..10_000_000_000_u64],
        bits in 0..80_u32,
        tick_hz in prop_oneof![Just(0), Just(u32::MAX), 1..2000_u32],
        calls in prop::collection::vec((timex(), 0..1_000_000_000_u64, number()), 1..20),
    ) {
        let kernel = LinuxKernel::new(Version(6, 1, 119), tick_hz.min(10_000));
        let source = KernelClockSource::new("any", hz, bits);
        let mut keeper = Timekeeper::boot(kernel, source, 0, 1_700_000_000_000_000_000);
        let mut counter = 0;
        for (mut timex, counts, time) in calls {
            counter += counts;
            keeper.interrupt(counter);
            let _ = keeper.adjtimex(counter, &mut timex);
            let _ = keeper.set_realtime(counter, i128::from(time) * 1000);
            let before = keeper.clocks(counter).monotonic;
            counter += counts.min(10 * keeper.tick_counts());
            keeper.advance_to(counter);
            // A counter that wraps between two ticks loses time.
            let is_long = source.mask / 64 > keeper.tick_counts();
            prop_assert!(!is_long || keeper.clocks(counter).monotonic >= before);
        }
    }
}
