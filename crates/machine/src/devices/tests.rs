//! Whatever a guest does: no panic, time goes forward, and a machine that is
//! saved and restored at any point cannot tell.

use proptest::collection::vec;
use proptest::prelude::*;
use provider::UnixTime;
use pvclock::{Hertz, Nanos, Ticks};

use super::*;

/// What a guest does, or its host.
#[derive(Debug, Clone)]
enum Step {
    In(u16, usize),
    Out(u16, Vec<u8>),
    Load(u64, usize),
    Store(u64, Vec<u8>),
    Rdmsr(u32),
    Wrmsr(u32, u64),
    Wait(u64),
}

fn port() -> impl Strategy<Value = u16> {
    prop_oneof![
        0x40..=0x43_u16,
        Just(0x61),
        0x70..=0x71_u16,
        0x3f8..=0x3ff_u16,
        0x606..=0x60c_u16,
        any::<u16>(),
    ]
}

fn address() -> impl Strategy<Value = u64> {
    let register = prop_oneof![Just(0), Just(0x10), Just(0xf0), Just(0xf4), 0..0x410_u64];
    prop_oneof![register.prop_map(|offset| Hpet::ADDRESS + offset), any::<u64>()]
}

fn msr() -> impl Strategy<Value = u32> {
    let known = [0x6e0, 0x802, 0x803, 0x80b, 0x80f, 0x832, 0x838, 0x839, 0x83e];
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
    ]
}

/// All devices of a machine with one vCPU.
struct Machine {
    bus: Devices,
    timer: LocalTimer,
    now: Moment,
}

impl Machine {
    fn new() -> Self {
        let real = UnixTime(Nanos(1_795_273_445_000_000_000));
        Self {
            bus: Devices::new(&Present::ALL),
            timer: LocalTimer::new(0, Hertz(1_000_000_000), Hertz(2_600_000_000)),
            now: Moment { since_start: Nanos(0), real, guest_tsc: Ticks(0) },
        }
    }

    /// Does a step; what the guest sees of it.
    fn step(&mut self, step: &Step) -> (Vec<u8>, Option<u64>) {
        let now = &self.now;
        match step {
            Step::In(port, bytes) => {
                let mut data = vec![0; *bytes];
                self.bus.port_read(*port, &mut data, now);
                return (data, None);
            }
            Step::Out(port, data) => self.bus.port_write(*port, data, now),
            Step::Load(address, bytes) => {
                let mut data = vec![0; *bytes];
                self.bus.mmio_read(*address, &mut data, now);
                return (data, None);
            }
            Step::Store(address, data) => self.bus.mmio_write(*address, data, now),
            Step::Rdmsr(msr) => return (Vec::new(), self.timer.read_msr(*msr, now).ok()),
            Step::Wrmsr(msr, value) => {
                let done = self.timer.write_msr(*msr, *value, now);
                return (Vec::new(), done.ok().map(|()| 0));
            }
            Step::Wait(ns) => {
                let Moment { since_start, real: UnixTime(real), guest_tsc } = self.now;
                self.now = Moment {
                    since_start: Nanos(since_start.0 + ns),
                    real: UnixTime(Nanos(real.0 + ns)),
                    guest_tsc: Ticks(guest_tsc.0.wrapping_add(ns / 5 * 13)),
                };
            }
        }
        (Vec::new(), None)
    }

    /// What interrupts now; afterwards nothing may be left to do.
    fn interrupts(&mut self) -> (Vec<Interrupt>, Option<u8>) {
        let mut raised = Vec::new();
        while let Some(interrupt) = self.bus.due(&self.now) {
            raised.push(interrupt);
            assert!(raised.len() <= 2, "more than one of each: {raised:?}");
        }
        let vector = self.timer.due(&self.now);
        assert_eq!(self.timer.due(&self.now), None, "not before the end of this one");
        for deadline in [self.bus.next_deadline(&self.now), self.timer.deadline(&self.now)] {
            assert!(
                deadline.is_none_or(|deadline| deadline > self.now.since_start),
                "{deadline:?}"
            );
        }
        (raised, vector)
    }

    fn restored(&self) -> Self {
        let state = self.bus.save();
        let bus = Devices::restore(&state).expect("it was saved");
        assert_eq!(bus.save(), state);
        Self { bus, timer: LocalTimer::restore(self.timer.save()), now: self.now }
    }

    /// The PM timer and the HPET.
    fn counters(&mut self) -> (u32, u64) {
        let (mut pm, mut hpet) = ([0; 4], [0; 8]);
        self.bus.port_read(AcpiPmTimer::PORT, &mut pm, &self.now);
        self.bus.mmio_read(Hpet::ADDRESS + 0xf0, &mut hpet, &self.now);
        (u32::from_le_bytes(pm), u64::from_le_bytes(hpet))
    }
}

proptest! {
    #[test]
    fn a_restored_machine_goes_on_as_if_nothing_were(steps in vec(step(), 1..200)) {
        let mut whole = Machine::new();
        let mut restored = Machine::new();
        for step in &steps {
            restored = restored.restored();
            prop_assert_eq!(whole.step(step), restored.step(step), "{:?}", step);
            prop_assert_eq!(whole.interrupts(), restored.interrupts(), "after {:?}", step);
        }
        prop_assert_eq!(whole.bus.save(), restored.bus.save());
        prop_assert_eq!(whole.timer.save(), restored.timer.save());
    }

    #[test]
    fn counters_count_forward(steps in vec(step(), 1..100)) {
        let mut machine = Machine::new();
        let running = Step::Store(Hpet::ADDRESS + 0x10, vec![1, 0, 0, 0]);
        machine.step(&running);
        for step in &steps {
            let (pm, hpet) = machine.counters();
            let before = machine.now.since_start;
            machine.step(step);
            let (pm_after, hpet_after) = machine.counters();
            let waited = machine.now.since_start.0 - before.0;
            let pm_ticks = Rate::hertz(AcpiPmTimer::FREQUENCY).ticks(Nanos(waited));
            // Rounded down at both ends, the difference is off by one at most.
            let pm_passed = pm_after.wrapping_sub(pm) & PmWidth::Bits24.mask();
            let odd = u64::from(pm_passed).wrapping_sub(pm_ticks) & 0xff_ffff;
            prop_assert!(odd <= 1, "{pm} to {pm_after} in {waited} ns");
            if matches!(step, Step::Wait(_)) {
                let ticks = hpet_after.wrapping_sub(hpet);
                let halted = ticks == 0;
                prop_assert!(halted || ticks.abs_diff(waited / 10) <= 1, "{ticks}, {waited} ns");
            }
        }
    }

    #[test]
    fn nobody_is_woken_more_often_than_the_least_period(
        steps in vec(step(), 1..60),
        run_ns in 1_000_000..20_000_000_u64,
    ) {
        let mut machine = Machine::new();
        steps.iter().for_each(|step| {
            machine.step(step);
        });
        machine.interrupts();
        let end = machine.now.since_start.0 + run_ns;
        let mut wakes = 0;
        while let Some(next) = machine.bus.next_deadline(&machine.now).filter(|next| next.0 < end) {
            machine.step(&Step::Wait(next.0 - machine.now.since_start.0));
            machine.interrupts();
            wakes += 1;
        }
        let most = run_ns / MIN_PERIOD.0 + 1;
        prop_assert!(wakes <= most, "{wakes} wakes in {run_ns} ns, at most {most}");
    }
}
