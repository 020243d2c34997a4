//! The outside of a guest: a host with its TSC, its clocks, and `host`'s code for
//! the guest's pages.

use host::msr::KVM_SYSTEM_TIME;
use host::pages::TimePage;
use host::vmclock::GuestCounter;
use host::{
    ClockMemory, ClockProvider, ClockSettings, GuestClock, HostClocks, HostEvent, PlainMemory,
    RestoreError, RestorePolicy, SavedGuestClock, StepBound, TscRatio, VcpuId,
};
use pvclock::kvm_clock::{TimeInfo, TimeReader};
use pvclock::units::UnixTime;
use pvclock::vmclock::Utc;
use pvclock::{Hertz, Nanos, Ticks};

use crate::oscillator::Oscillator;
use crate::random::{Purpose, RandomStream};
use crate::scenario::ScenarioHost;
use crate::truth::Truth;
use crate::vmclock::SimulatedVmClock;

const VCPU: VcpuId = VcpuId(0);

/// Bits of fraction of a ratio, as Intel scales.
const FRACTION_BITS: u32 = 48;

/// A host's wall clock forgets an error in this time, s.
const CLOCK_FORGETS_S: f64 = 1000.0;

/// Deviations that a host says its wall clock is right within, and keeps.
const PROMISED: f64 = 4.0;

/// The TSC of host `n`: 2.1 to 3.6 GHz.
fn tsc_hz(number: u32, stream: &mut RandomStream) -> u64 {
    let step = (stream.bits() % 16) * 100_000_000;
    2_100_000_000 + step + u64::from(number % 2) * 3_000_000
}

/// A host.
#[derive(Debug)]
struct OneHost {
    oscillator: Oscillator,
    /// True time at which its counter began.
    began_ns: i64,
    hz: u64,
    /// Counts in a ns, times 2⁴⁰.
    mult: u64,
    /// The counter then.
    tsc: u64,
    /// How long it was up then.
    boot_ns: u64,
    clock: RandomStream,
    clock_error_ns: f64,
    clock_at_ns: i64,
}

/// A guest's machine.
pub(crate) struct SimulatedMachine {
    what: ScenarioHost,
    seed: u64,
    guest: u64,
    /// Counts the hosts that it has been on.
    number: u32,
    here: OneHost,
    clock: GuestClock,
    memory: PlainMemory,
    ratio: TscRatio,
    offset: u64,
    /// Its VMClock page.
    pub(crate) told: Option<SimulatedVmClock>,
}

impl OneHost {
    fn new(what: &ScenarioHost, (seed, guest): (u64, u64), number: u32, at_ns: i64) -> Self {
        let mut stream = RandomStream::new(seed, guest, Purpose::Oscillator(number));
        let mut clock = RandomStream::new(seed, guest, Purpose::HostClock(number));
        let hz = tsc_hz(number, &mut stream);
        // Up for an hour to a hundred days.
        let boot_ns = (clock.between(3.6e12, 8.64e15)) as u64;
        let clock_error_ns = clock.normal().clamp(-PROMISED, PROMISED) * what.clock_error_ms * 1e6;
        Self {
            oscillator: Oscillator::new(what.oscillator, stream, at_ns),
            began_ns: at_ns,
            hz,
            mult: ((u128::from(hz) << 40) / 1_000_000_000) as u64,
            tsc: (u128::from(boot_ns) * u128::from(hz) / 1_000_000_000) as u64,
            boot_ns,
            clock,
            clock_error_ns,
            clock_at_ns: at_ns,
        }
    }

    /// By its own oscillator, since it began, in 2⁻¹⁰ ns.
    /// A year of it has 65 bits.
    fn elapsed(&mut self, at_ns: i64) -> u128 {
        let error = self.oscillator.look(at_ns) * 1024.0;
        (i128::from(at_ns - self.began_ns) * 1024 + i128::from(error as i64)).max(0).cast_unsigned()
    }

    fn tsc(&mut self, at_ns: i64) -> u64 {
        let counts = (self.elapsed(at_ns) * u128::from(self.mult)) >> 50;
        self.tsc.wrapping_add(counts as u64)
    }

    fn clocks(&mut self, at_ns: i64, truth: &Truth, deviation_ns: f64) -> HostClocks {
        let dt_s = (at_ns - self.clock_at_ns) as f64 * 1e-9;
        let left = libm::exp(-dt_s / CLOCK_FORGETS_S);
        let drawn = self.clock.normal() * deviation_ns * (1.0 - left * left).max(0.0).sqrt();
        let most_ns = deviation_ns * PROMISED;
        self.clock_error_ns = (self.clock_error_ns * left + drawn).clamp(-most_ns, most_ns);
        self.clock_at_ns = at_ns;
        let real = truth.utc_ns(at_ns) + self.clock_error_ns as i64;
        let boot = self.boot_ns + (self.elapsed(at_ns) / 1024) as u64;
        let real = UnixTime(Nanos(real.cast_unsigned()));
        HostClocks::new(Ticks(self.tsc(at_ns)), Nanos(boot), real)
            .changed(|new| new.tai_offset_s = Some(truth.tai_s(at_ns)))
    }
}

impl SimulatedMachine {
    pub(crate) fn new(
        what: ScenarioHost,
        (seed, guest): (u64, u64),
        truth: &Truth,
    ) -> Option<Self> {
        let mut here = OneHost::new(&what, (seed, guest), 0, 0);
        let now = here.clocks(0, truth, what.clock_error_ms * 1e6);
        let clock = GuestClock::new(settings(&what, here.hz), now).ok()?;
        let (memory, ratio) = (PlainMemory::new(1), TscRatio::ONE);
        let number = 0;
        let (offset, told) = (0, None);
        let mut new = Self { what, seed, guest, number, here, clock, memory, ratio, offset, told };
        let tsc_offset = now.tsc.0.wrapping_neg();
        new.clock.handle(HostEvent::VcpuCreated { vcpu: VCPU, tsc_offset }, now, &new.memory);
        let address = PlainMemory::time(0).0 | 1;
        new.clock.write_msr(VCPU, KVM_SYSTEM_TIME, address, now, &new.memory).ok()?;
        new.enter(now);
        let bound = (new.here.hz, Nanos(new.host_bound_ns()));
        new.told = what.vmclock.then(|| SimulatedVmClock::new(bound, new.counter(), (now, 0)));
        Some(new)
    }

    fn enter(&mut self, now: HostClocks) {
        self.clock.before_entry(VCPU, now, &self.memory);
        self.offset = self.clock.tsc_offset(VCPU).unwrap_or(0);
    }

    const fn counter(&self) -> GuestCounter {
        GuestCounter { ratio: self.ratio, offset: self.offset }
    }

    /// The guest's TSC is not what its page says: it is written before the guest runs.
    fn disrupted(&mut self, is_copy: bool, now: HostClocks, at_ns: i64) {
        let (hz, counter) = (self.here.hz, self.counter());
        if let Some(told) = &mut self.told {
            told.disrupted(hz, counter, is_copy, (now, at_ns));
        }
    }

    /// The time by the guest's VMClock page, if its host vouches for it.
    pub(crate) fn read_vmclock(&mut self, at_ns: i64, truth: &Truth) -> Option<Utc> {
        self.told.as_ref()?;
        let (now, tsc) = (self.now(at_ns, truth), self.tsc(at_ns));
        self.told.as_mut()?.read(tsc, (now, at_ns))
    }

    fn now(&mut self, at_ns: i64, truth: &Truth) -> HostClocks {
        self.here.clocks(at_ns, truth, self.what.clock_error_ms * 1e6)
    }

    /// The guest's TSC.
    pub(crate) fn tsc(&mut self, at_ns: i64) -> u64 {
        self.ratio.apply(self.here.tsc(at_ns)).wrapping_add(self.offset)
    }

    /// The rate at which the guest takes its TSC to run, kHz.
    pub(crate) fn advertised_khz(&self) -> u64 {
        self.clock.settings().advertised_tsc.0 / 1000
    }

    fn page(&self) -> Option<&TimePage> {
        self.memory.page(PlainMemory::time(0)).ok()
    }

    /// Time by the guest's page at a count of its TSC, ns.
    pub(crate) fn page_ns(&self, tsc: u64) -> u64 {
        let nanos = self.page().and_then(|page| TimeReader::new(page).nanos(&|| tsc).ok());
        nanos.map_or(0, |nanos| nanos.0)
    }

    /// What the page holds.
    pub(crate) fn page_info(&self) -> Option<TimeInfo> {
        TimeReader::new(self.page()?).info().ok()
    }

    /// What the host says its clock is right within, ns.
    fn host_bound_ns(&self) -> u64 {
        (self.what.clock_error_ms * 1e6 * PROMISED) as u64
    }

    /// The guest stops, to go on later, here or elsewhere.
    pub(crate) fn save(&mut self, at_ns: i64, truth: &Truth) -> SavedGuestClock {
        let now = self.now(at_ns, truth);
        self.clock.handle(HostEvent::Paused, now, &self.memory);
        self.clock.save(now)
    }

    /// It goes on by the plan, on another host if `is_moved`.
    pub(crate) fn restore(
        &mut self,
        saved: &SavedGuestClock,
        policy: RestorePolicy,
        is_moved: bool,
        at_ns: i64,
        truth: &Truth,
    ) -> Result<StepBound, RestoreError> {
        if is_moved {
            self.number += 1;
            self.here = OneHost::new(&self.what, (self.seed, self.guest), self.number, at_ns);
        }
        let now = self.now(at_ns, truth);
        let settings = settings(&self.what, self.here.hz);
        let (clock, restored) = GuestClock::restore(saved, settings, policy, now)?;
        (self.clock, self.ratio) = (clock, restored.ratio);
        self.enter(now);
        self.disrupted(!is_moved, now, at_ns);
        Ok(restored.step)
    }

    /// The host stops the guest and lets it go on. Its TSC counts on; the page's
    /// clock stands if the VMM sets it back, as QEMU does.
    pub(crate) fn pause(&mut self, (from_ns, until_ns): (i64, i64), freezes: bool, truth: &Truth) {
        let now = self.now(from_ns, truth);
        let clock = self.clock.time(VCPU, now);
        self.clock.handle(HostEvent::Paused, now, &self.memory);
        let now = self.now(until_ns, truth);
        if freezes {
            self.clock.handle(HostEvent::ClockSet { clock }, now, &self.memory);
        }
        self.clock.handle(HostEvent::Resumed, now, &self.memory);
        self.enter(now);
    }

    /// The host sleeps until `until_ns`, and its TSC starts from 0.
    pub(crate) fn sleep(&mut self, from_ns: i64, until_ns: i64, truth: &Truth) {
        let now = self.now(from_ns, truth);
        self.clock.handle(HostEvent::HostSuspended, now, &self.memory);
        self.restart(until_ns);
        let now = self.now(until_ns, truth);
        self.clock.handle(HostEvent::HostResumed, now, &self.memory);
        self.enter(now);
        self.disrupted(false, now, until_ns);
    }

    /// The counter starts from 0, and the host's uptime goes on.
    fn restart(&mut self, at_ns: i64) {
        let here = &mut self.here;
        here.boot_ns += (here.elapsed(at_ns) / 1024) as u64;
        here.tsc = 0;
        // What the oscillator is ahead belongs to what was counted before.
        here.oscillator.restart(at_ns);
        here.began_ns = at_ns;
    }

    /// The host's TSC starts from 0 under the guest.
    pub(crate) fn reset_counter(&mut self, at_ns: i64, truth: &Truth) {
        self.restart(at_ns);
        let now = self.now(at_ns, truth);
        // The VMM notices as it enters: the page, and not the TSC, goes on.
        let tsc_offset = self.offset;
        self.clock.handle(
            HostEvent::TscOffsetChanged { vcpu: VCPU, tsc_offset },
            now,
            &self.memory,
        );
        self.enter(now);
        self.disrupted(false, now, at_ns);
    }

    /// The guest is told another frequency than its TSC has, which a host may scale.
    pub(crate) fn advertise(&mut self, by: f64, at_ns: i64, truth: &Truth) {
        let now = self.now(at_ns, truth);
        let frequency = Hertz((self.ratio.apply(self.here.hz) as f64 * by) as u64);
        self.clock.handle(HostEvent::TscFrequencyAdvertised { frequency }, now, &self.memory);
        self.enter(now);
    }
}

fn settings(what: &ScenarioHost, hz: u64) -> ClockSettings {
    let error = Nanos((what.clock_error_ms * 1e6 * PROMISED) as u64);
    ClockSettings::new(ClockProvider::Kvm, Hertz(hz)).changed(|new| {
        new.tsc_scaling = what.scales_tsc.then_some(FRACTION_BITS);
        new.real_time_error = Some(error);
    })
}
