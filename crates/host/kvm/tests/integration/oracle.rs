//! Saves, restores and moves on a model of KVM: no step is beyond its stated bound.
//! `PARACHRON_LONG=1 cargo test --release -p pvclock-kvm oracle` tries a million.

use pvclock::Nanos;
use pvclock::units::random::SplitMix64;
use pvclock_host::RestorePolicy as Policy;
use pvclock_kvm::{
    Error, HostCapabilities, KvmClockState as State, KvmVcpu, RestoredState, SavedTsc,
};
use test_size::size;

use crate::model::{DAY, KeepsOffset, Kernel, ModelVm, Recorded, SECOND, World};

/// Moves of one run: no fault is known that 20 000 missed.
fn moves() -> u64 {
    size(20_000, 1_000_000)
}

/// When the guest's timer is due, ns after it was set.
const TIMER_NS: u64 = 3 * 3_600 * SECOND;

fn host<'w>(world: &'w World, near_khz: Option<u64>, up: u64) -> crate::model::Host<'w> {
    let mut chance = world.chance.borrow_mut();
    let khz = match near_khz {
        // Two boots of one host, or twins: calibrations differ by a few kHz.
        Some(khz) => khz.saturating_add_signed(chance.within(khz / 5_000)),
        None => 1_000_000 + chance.below(4_000_000),
    };
    // Up to 50 ppm of error of the oscillator against the rate that was measured.
    let hz = (khz * 1_000).saturating_add_signed(chance.within(khz / 20));
    let fraction_bits = [Some(48), Some(32), None][chance.below(3) as usize];
    let now = world.now.get();
    let up = chance.below(up.min(now));
    crate::model::Host {
        world,
        kernel: Kernel { pairs: !chance.one_in(4), master_with_offsets: chance.one_in(3) },
        hz,
        khz,
        tsc_at_boot: chance.below(1 << 40),
        booted: now - up,
        real_error: chance.within(20).into(),
        steps: 0.into(),
        knows_tai: true,
        fraction_bits,
        set_lag: 20 + chance.below(150),
    }
}

/// A VMM's part: all that it saves goes through a file.
fn through_a_file(state: &State) -> State {
    let read = serde_json::from_str(&serde_json::to_string(state).unwrap()).unwrap();
    assert_eq!(&read, state);
    read
}

fn known(host: &crate::model::Host<'_>) -> HostCapabilities {
    let mut known = HostCapabilities::new(host.tsc_of_kvm()).with_real_error(Nanos(20));
    known.boot_id = Some(format!("{:x}", host.booted));
    known
}

fn restore(vm: &ModelVm<'_>, saved: &State, policy: Policy) -> Result<RestoredState, Error> {
    let vcpus: Vec<_> = vm.vcpus.iter().collect();
    pvclock_kvm::restore(vm, &vcpus, saved, &known(vm.host), policy)
}

fn save(vm: &ModelVm<'_>) -> Result<State, Error> {
    let vcpus: Vec<_> = vm.vcpus.iter().collect();
    pvclock_kvm::save(vm, &vcpus, &known(vm.host)).map(|state| through_a_file(&state))
}

/// What one move showed.
struct Seen {
    step: u64,
    bound: u64,
    /// By the guest's line, clock against TSC, ns.
    line: u64,
    pairs: bool,
}

/// A VM that has run for some hours, with a TSC of its own rate and value.
fn started<'h>(host: &'h crate::model::Host<'h>, vcpus: usize) -> ModelVm<'h> {
    let (world, vm) = (host.world, ModelVm::new(host, vcpus));
    let mut chance = world.chance.borrow_mut();
    let scaled_khz = host.khz / 2 + chance.below(host.khz);
    let is_scaled = host.fraction_bits.is_some() && chance.one_in(3);
    let offset = chance.bits();
    let ran = chance.below(12 * 3_600 * SECOND);
    // Firmware that left one TSC behind: it stays so.
    let one_behind = chance.one_in(8);
    drop(chance);
    for vcpu in &vm.vcpus {
        if is_scaled {
            vcpu.set_tsc_khz(scaled_khz as u32).unwrap();
        }
        vcpu.set_tsc_offset(offset).unwrap();
        vcpu.set_msr(crate::model::KVM_SYSTEM_TIME, 0x8001).unwrap();
    }
    if one_behind {
        vm.vcpus[vcpus - 1].set_tsc_offset(offset.wrapping_sub(77_777)).unwrap();
    }
    world.now.set(world.now.get() + ran);
    vm.enter();
    let cycles = TIMER_NS / SECOND * vm.vcpus[0].khz() * 1_000;
    vm.vcpus[0].set_msr(0x6e0, vm.vcpus[0].guest_tsc().wrapping_add(cycles)).unwrap();
    vm
}

/// What a guest had when it was saved.
struct Before {
    saved: State,
    /// The truth then.
    then: u64,
    clock: u64,
    tscs: Vec<u64>,
    deadline: u64,
}

impl Before {
    fn save(vm: &ModelVm<'_>) -> Self {
        let saved = save(vm).unwrap();
        let tsc = saved.clock.taken.tsc.0;
        Self {
            then: vm.host.truth_at(tsc),
            clock: vm.guest_clock_at(tsc),
            tscs: vm.vcpus.iter().map(|vcpu| vcpu.guest_tsc_at(tsc)).collect(),
            deadline: vm.vcpus[0].msr(0x6e0).unwrap().unwrap(),
            saved,
        }
    }

    /// How far each TSC is from the clock, which gained `gained` ns; and that all are as
    /// far apart as they were, to the cycle.
    fn line(&self, there: &ModelVm<'_>, tsc: u64, gained: u64) -> u64 {
        let first = there.vcpus[0].guest_tsc_at(tsc);
        let off = there.vcpus.iter().zip(&self.tscs).map(|(vcpu, before)| {
            let after = vcpu.guest_tsc_at(tsc);
            assert_eq!(after.wrapping_sub(first), before.wrapping_sub(self.tscs[0]));
            let cycles = u128::from(after.wrapping_sub(*before));
            ((cycles * 1_000_000 / u128::from(vcpu.khz())) as u64).abs_diff(gained)
        });
        off.max().unwrap()
    }

    /// The timer fires when the TSC gets there, or at once if it is overdue.
    fn check_timer(&self, there: &ModelVm<'_>, tsc: u64) {
        let (vcpu, host) = (&there.vcpus[0], there.host);
        let fires = vcpu.timer.get().unwrap();
        let overdue = vcpu.guest_tsc_at(tsc).wrapping_sub(self.deadline).cast_signed();
        if overdue > 0 {
            assert!(fires.abs_diff(host.truth_at(tsc)) < 100_000, "{fires}");
        } else {
            let at_that = vcpu.guest_tsc_at(host.tsc_at(fires)).wrapping_sub(self.deadline);
            let off_ns = at_that.cast_signed().unsigned_abs() * 1_000 / (vcpu.khz() / 1_000);
            // 400 ppm: the oscillator against its kHz, and a rate that is not scaled.
            assert!(off_ns < TIMER_NS / 2_500 + 10_000, "the timer is {off_ns} ns off");
        }
    }
}

/// One move; `None` where it was refused by name.
fn one(seed: u64) -> Option<Seen> {
    let chance = SplitMix64::new(seed);
    let world = World { now: (400 * DAY).into(), leap: 401 * DAY, chance: chance.into() };
    let below = |end| world.chance.borrow_mut().below(end);
    let (vcpus, policy) = (1 + below(4) as usize, Policy::ALL[below(4) as usize]);
    let from = host(&world, None, 365 * DAY);
    let vm = started(&from, vcpus);
    let before = Before::save(&vm);

    // Every other one is away when the leap second comes.
    let leaps = below(2) == 0 && policy != Policy::Hold;
    let away = below(if policy == Policy::Hold { 100 } else { 7_200 } * SECOND);
    let now = if leaps { world.leap.max(before.then) + away } else { before.then + away };
    world.now.set(now.max(world.now.get()));
    let away = world.now.get() - before.then;
    let near = (below(2) == 0).then_some(from.khz);
    let to = host(&world, near, 365 * DAY);
    let to = if policy == Policy::Hold { &from } else { &to };
    let there = ModelVm::new(to, vcpus);
    let restored = match restore(&there, &before.saved, policy) {
        Ok(restored) => restored,
        Err(Error::CatchUp { .. } | Error::TooSlow { .. }) => {
            assert_eq!(to.fraction_bits, None);
            assert!(there.vcpus.iter().all(|vcpu| !vcpu.catchup.get() && !vcpu.stopped.get()));
            assert_eq!(there.sets.get(), 0, "refused before anything is set");
            return None;
        }
        Err(error) => panic!("seed {seed}: {error}"),
    };
    there.enter();
    assert!(there.vcpus.iter().all(|vcpu| vcpu.stopped.get() && !vcpu.catchup.get()));

    // At the moment as of which the clock was restored.
    let clock = &restored.clock;
    let tsc = clock.since.tsc.0;
    let truth = to.truth_at(tsc);
    let gained = there.guest_clock_at(tsc).wrapping_sub(before.clock);
    let expected = match policy {
        Policy::Advance => truth - before.then,
        // As if it had stayed: the line that the VM had, at this TSC.
        Policy::Hold => vm.guest_clock_at(tsc).wrapping_sub(before.clock),
        // Nothing passes until the restore begins, with its look at the clocks: the first,
        // or, where that did not pair them, the second.
        _ => {
            let began = restored.clock.began.tsc.0;
            let looks = there.read_at.borrow();
            let look = looks.iter().take(2).min_by_key(|at| at.abs_diff(to.truth_at(began)));
            truth.saturating_sub(*look.unwrap())
        }
    };
    let (step, bound) = (gained.abs_diff(expected), clock.step.bound.0);
    assert!(step <= bound, "seed {seed}: a step of {step} ns, bound {bound}: {restored:?}");
    assert!(!clock.step.without_real_time && !clock.step.without_tai);
    if policy == Policy::Sleep {
        let slept = clock.plan.slept.0;
        assert!(slept.abs_diff(away) < 20_000_000, "seed {seed}: {slept} not {away}");
    }
    before.check_timer(&there, tsc);
    let line = before.line(&there, tsc, gained);
    Some(Seen { step, bound, line, pairs: saved_pairs(&before.saved, &restored) })
}

fn saved_pairs(saved: &State, restored: &RestoredState) -> bool {
    saved.clock.width == Nanos(0) && restored.clock.width == Nanos(0)
}

#[test]
fn no_move_steps_beyond_its_bound() {
    let (mut done, mut refused, mut paired, mut most) = (0, 0, 0, (0, 0, 0));
    for seed in 1..=moves() {
        let Some(seen) = one(seed) else {
            refused += 1;
            continue;
        };
        done += 1;
        if seen.pairs {
            paired += 1;
            // Whole ns: of KVM's raw clock at each of two updates, of two readings.
            assert!(seen.line <= 4, "seed {seed}: the line is {} ns apart", seen.line);
            most = (most.0.max(seen.step), most.1.max(seen.bound), most.2.max(seen.line));
        }
    }
    let (step, bound, line) = most;
    println!("{done} moves, {refused} refused by name; {paired} between hosts that pair clock");
    println!("and TSC: step {step} ns, bound {bound} ns, line {line} ns at most");
    assert!(done > 2 * moves() / 3 && paired > done / 4, "{done} {paired}");
    assert!(bound <= 100, "{bound} ns where both hosts' clocks allow less");
}

/// A time of day that steps while a clock is restored, and a restore that is made twice.
#[test]
fn a_step_of_the_host_during_a_restore_is_no_step_of_the_guest() {
    for seed in 1..=400_u64 {
        let chance = SplitMix64::new(seed);
        let world = World { now: (9 * DAY).into(), leap: u64::MAX, chance: chance.into() };
        let host = host(&world, None, DAY);
        let vm = started(&host, 2);
        let policy = Policy::ALL[seed as usize % 4];
        let saved = save(&vm).unwrap();
        let there = ModelVm::new(&host, 2);
        restore(&there, &saved, policy).unwrap();
        let step = [1, -1, 3_600, -3_600][seed as usize / 4 % 4] * SECOND.cast_signed();
        host.steps.set(step);
        let before = world.now.get();
        let clock = restore(&there, &saved, policy).unwrap().clock;
        let tsc = clock.since.tsc.0;
        let gained = there.guest_clock_at(tsc).wrapping_sub(saved.clock.clock.0);
        let taken = host.truth_at(saved.clock.taken.tsc.0);
        let truth = host.truth_at(tsc);
        let expected = match policy {
            Policy::Advance | Policy::Hold => truth - taken..=truth - taken,
            _ => 0..=truth - before,
        };
        // By 50 ppm the raw clock of a held guest is off the truth.
        let bound = clock.step.bound.0 + (truth - taken) / 19_000;
        let off =
            expected.start().saturating_sub(gained).max(gained.saturating_sub(*expected.end()));
        assert!(off <= bound && bound < 60_000, "seed {seed}: {off} {bound} {clock:?}");
    }
}

#[test]
fn a_tsc_written_as_an_msr_is_snapped_and_one_set_by_offset_is_not() {
    let world = World { now: (9 * DAY).into(), leap: u64::MAX, chance: SplitMix64::new(3).into() };
    let host = host(&world, None, DAY);
    let vm = ModelVm::new(&host, 1);
    let vcpu = &vm.vcpus[0];
    let (before, second) = (vcpu.guest_tsc(), host.khz * 1_000);
    vcpu.set_msr(0x10, before + second / 2).unwrap();
    assert!(vcpu.guest_tsc() < before + second / 4, "taken for an attempt to be equal");
    let offset = vcpu.tsc_offset().unwrap().wrapping_add(second / 2);
    vcpu.set_tsc_offset(offset).unwrap();
    assert!(vcpu.guest_tsc() >= before + second / 2);
}

#[test]
fn a_clock_is_held_on_its_own_boot_only_and_vcpus_are_counted() {
    let world = World { now: (9 * DAY).into(), leap: u64::MAX, chance: SplitMix64::new(5).into() };
    let host = host(&world, None, DAY);
    let mut saved = save(&ModelVm::new(&host, 2)).unwrap();
    assert!(restore(&ModelVm::new(&host, 2), &saved, Policy::Hold).is_ok());
    let short = restore(&ModelVm::new(&host, 3), &saved, Policy::Freeze);
    assert!(matches!(short, Err(Error::VcpuCount { saved: 2, here: 3 })));
    saved.host.boot_id = None;
    let held = restore(&ModelVm::new(&host, 2), &saved, Policy::Hold);
    assert!(matches!(held, Err(Error::OtherBoot)));
    // Of no host, and refused before anything is set.
    saved.tscs[0] = SavedTsc::new(pvclock::Hertz(u64::MAX), 0);
    let there = ModelVm::new(&host, 2);
    assert!(restore(&there, &saved, Policy::Freeze).is_err());
    assert_eq!(there.sets.get(), 0);
}

/// What the plan refuses is refused before a rate, the clock or an offset is set.
#[test]
fn a_clock_that_cannot_continue_leaves_the_vm_as_it_was() {
    let world = World { now: (9 * DAY).into(), leap: u64::MAX, chance: SplitMix64::new(5).into() };
    let pairing = Kernel { pairs: false, master_with_offsets: true };
    let host =
        crate::model::Host { kernel: pairing, fraction_bits: Some(48), ..host(&world, None, DAY) };
    let from = started(&host, 2);
    from.vcpus[0].set_tsc_khz(host.khz as u32 * 2).unwrap();
    type Case = (&'static str, Policy, fn(&mut State));
    let cases: [Case; 5] = [
        ("of a later boot", Policy::Hold, |saved| saved.clock.taken.boot = Nanos(u64::MAX)),
        ("of a TSC ahead", Policy::Hold, |saved| saved.clock.taken.tsc.0 = u64::MAX),
        ("clock beyond 64 bits", Policy::Advance, |saved| saved.clock.clock = Nanos(u64::MAX)),
        ("so soon", Policy::Freeze, |saved| saved.clock.clock = Nanos(u64::MAX - SECOND)),
        ("TSC beyond 64 bits", Policy::Advance, |saved| {
            saved.clock.taken.real.0 = Nanos(0);
            saved.tscs[1].frequency = pvclock::Hertz(u64::from(u32::MAX) * 1_000);
        }),
    ];
    for (what, policy, change) in cases {
        let (there, mut saved) = (ModelVm::new(&host, 2), save(&from).unwrap());
        change(&mut saved);
        let vcpus = || there.vcpus.iter().map(|vcpu| (vcpu.khz(), vcpu.tsc_offset().unwrap()));
        let before: Vec<_> = vcpus().collect();
        let refused = restore(&there, &saved, policy);
        assert!(matches!(refused, Err(Error::Restore(_))), "{what}: {refused:?}");
        assert!(there.sets.get() == 0 && vcpus().eq(before), "{what}");
    }
}

/// A KVM that keeps a vCPU's offset makes its guest's TSC step, and the restore states by how
/// many cycles.
#[test]
fn an_offset_that_kvm_keeps_is_a_step_with_its_size() {
    const KEPT: u64 = 12_345;
    let world = World { now: (9 * DAY).into(), leap: u64::MAX, chance: SplitMix64::new(5).into() };
    let host = host(&world, None, DAY);
    let saved = save(&started(&host, 1)).unwrap();
    let right = restore(&ModelVm::new(&host, 1), &saved, Policy::Hold).unwrap().tscs[0];
    assert_eq!(right.step(), 0);
    let there = ModelVm::new(&host, 1);
    there.vcpus[0].set_tsc_offset(KEPT).unwrap();
    let vcpu = KeepsOffset(&there.vcpus[0]);
    let kept = pvclock_kvm::restore(&there, &[&vcpu], &saved, &known(&host), Policy::Hold).unwrap();
    let step = KEPT.wrapping_sub(right.offset).cast_signed();
    assert!(kept.tscs[0].step().abs_diff(step) < host.khz, "{step} {kept:?}"); // within 1 ms
    assert!(matches!(kept.clock.check(&kept.tscs), Err(Error::TscStep { .. })), "{kept:?}");
}

/// A write of IA32_TSC_ADJUST by the host does not move the TSC, the deadline is counted
/// from the TSC as it then is, and a pause can be told only to a vCPU with a page.
#[test]
fn what_counts_in_the_tsc_is_set_after_it_and_the_pages_after_that() {
    const STEAL_PAGE: u64 = 0x9001;
    let world = World { now: (9 * DAY).into(), leap: u64::MAX, chance: SplitMix64::new(5).into() };
    let host = host(&world, None, DAY);
    let (from, to) = (started(&host, 1), ModelVm::new(&host, 1));
    let move_to = |vcpu: &Recorded<'_>, adjust, steal_time| {
        let saved = Recorded::new(&from, adjust, steal_time);
        let state = through_a_file(&pvclock_kvm::save(&from, &[&saved], &known(&host)).unwrap());
        assert_eq!(*saved.set.borrow(), [], "a save sets nothing");
        pvclock_kvm::restore(&to, &[vcpu], &state, &known(&host), Policy::Advance)
    };
    let deadline = from.vcpus[0].msr(0x6e0).unwrap().unwrap();

    let vcpu = Recorded::new(&to, Some(0), Some(0));
    move_to(&vcpu, Some(7), Some(STEAL_PAGE)).unwrap();
    let set: Vec<_> = vcpu.set.take().into_iter().filter(|(name, _)| *name != "rate").collect();
    let msrs =
        [("adjust", 7), ("deadline", deadline), ("page", 0x8001), ("steal time", STEAL_PAGE)];
    assert_eq!(set[0], ("offset", 0));
    assert_eq!(set[1..5], msrs);
    assert!(set[5..].iter().all(|(name, _)| *name == "stop"), "{set:?}");

    // What the guest had switched off, and what KVM did not have, is not set.
    move_to(&vcpu, None, Some(STEAL_PAGE - 1)).unwrap();
    let names: Vec<_> = vcpu.set.take().into_iter().map(|(name, _)| name).collect();
    assert!(!names.contains(&"adjust") && !names.contains(&"steal time"), "{names:?}");

    // One that has it no more says so.
    let less = Recorded::new(&to, None, Some(0));
    let error = move_to(&less, Some(7), None).unwrap_err();
    assert!(matches!(error, Error::Msr { msr: 0x3b, value: 7 }), "{error}");
}
