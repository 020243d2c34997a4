//! Whatever a guest does, nothing panics, time goes forward, and a save and
//! restore at any point changes nothing that the guest sees.

mod rig;

use proptest::collection::vec;
use proptest::prelude::*;
use pvclock::Nanos;
use pvclock::units::UnixTime;

use super::*;
use rig::{Machine, Step};

fn port() -> impl Strategy<Value = u16> {
    prop_oneof![0x70..=0x71_u16, 0x3f8..=0x3ff_u16, 0x600..=0x60c_u16, any::<u16>(),]
}

fn address() -> impl Strategy<Value = u64> {
    let register = prop_oneof![Just(0), Just(0x10), Just(0xf0), Just(0xf4), 0..0x410_u64];
    prop_oneof![register.prop_map(|offset| Hpet::ADDRESS + offset), any::<u64>()]
}

fn msr() -> impl Strategy<Value = u32> {
    let known = [0x802, 0x803, 0x80b, 0x80f, 0x832, 0x838, 0x839, 0x83e];
    prop_oneof![8 => prop::sample::select(known.to_vec()), 1 => any::<u32>()]
}

fn step() -> impl Strategy<Value = Step> {
    let bytes = prop::sample::select(vec![0_usize, 1, 1, 1, 2, 3, 4, 4, 8, 8, 17]);
    let data = || bytes.clone().prop_flat_map(|bytes| vec(any::<u8>(), bytes));
    let value = prop_oneof![any::<u64>(), 0..500_000_u64, 0..0x200_u64, Just(0)];
    let wait = prop_oneof![0..2_000_u64, 0..3_000_000_u64, 0..(1_u64 << 44)];
    prop_oneof![
        (port(), bytes.clone()).prop_map(|(port, bytes)| Step::In(port, bytes)),
        (port(), data()).prop_map(|(port, data)| Step::Out(port, data)),
        (address(), bytes.clone()).prop_map(|(address, bytes)| Step::Load(address, bytes)),
        (address(), data()).prop_map(|(address, data)| Step::Store(address, data)),
        msr().prop_map(Step::Rdmsr),
        (msr(), value).prop_map(|(msr, value)| Step::Wrmsr(msr, value)),
        wait.prop_map(Step::Wait),
        Just(Step::TakeSerial),
    ]
}

/// The PM timer and the HPET.
fn counters(machine: &mut Machine) -> (u32, u64) {
    let (mut pm, mut hpet) = ([0; 4], [0; 8]);
    machine.bus.port_read(AcpiPmTimer::PORT, &mut pm, &machine.now);
    machine.bus.mmio_read(Hpet::ADDRESS + 0xf0, &mut hpet, &machine.now);
    (u32::from_le_bytes(pm), u64::from_le_bytes(hpet))
}

proptest! {
    #[test]
    fn a_restored_machine_continues_unchanged(steps in vec(step(), 1..200)) {
        let mut whole = Machine::new();
        let mut restored = Machine::new();
        for step in &steps {
            restored = restored.restored();
            prop_assert_eq!(whole.step(step), restored.step(step), "{:?}", step);
            prop_assert_eq!(whole.interrupt(), restored.interrupt(), "after {:?}", step);
        }
        prop_assert_eq!(whole.bus.save(), restored.bus.save());
        prop_assert_eq!(whole.timer, restored.timer);
    }

    #[test]
    fn counters_count_forward(steps in vec(step(), 1..100)) {
        let mut machine = Machine::new();
        let running = Step::Store(Hpet::ADDRESS + 0x10, vec![1, 0, 0, 0]);
        machine.step(&running);
        for step in &steps {
            let (pm, hpet) = counters(&mut machine);
            let before = machine.now.since_start;
            machine.step(step);
            let (pm_after, hpet_after) = counters(&mut machine);
            let waited = machine.now.since_start.0 - before.0;
            let pm_ticks = DeviceRate::hertz(AcpiPmTimer::FREQUENCY).ticks(Nanos(waited));
            // Rounded down at both ends, the difference is off by one at most.
            let pm_passed = pm_after.wrapping_sub(pm) & AcpiPmTimer::MASK;
            let odd = u64::from(pm_passed).wrapping_sub(pm_ticks) & 0xff_ffff;
            prop_assert!(odd <= 1, "{pm} to {pm_after} in {waited} ns");
            if matches!(step, Step::Wait(_)) {
                let ticks = hpet_after.wrapping_sub(hpet);
                let halted = ticks == 0;
                prop_assert!(halted || ticks.abs_diff(waited / 10) <= 1, "{ticks}, {waited} ns");
            }
        }
    }
}
