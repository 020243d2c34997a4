//! A model of KVM's clocks after arch/x86/kvm/x86.c, on hosts of its own. It shares no
//! formula with the crate under test: what KVM does in C is written down once more.
//!
//! Truth is a count of ns. A host's TSC is what its oscillator makes of it; the host
//! believes a rate in kHz, which is off by a few ppm; its time of day is off by a
//! bounded error. Each call takes time.

mod keeps_offset;
mod recorded;

use std::cell::{Cell, RefCell};

use kvm_bindings::{KVM_CLOCK_HOST_TSC, KVM_CLOCK_REALTIME, KVM_CLOCK_TSC_STABLE, kvm_clock_data};
use pvclock::units::UnixTime;
use pvclock::units::random::SplitMix64;
use pvclock::{Hertz, Nanos, Ticks};
use pvclock_host::HostClocks;
use pvclock_kvm::host_clock::HostReading;
use pvclock_kvm::{Error, HostTsc, KvmVcpu, KvmVm};

pub(crate) use keeps_offset::KeepsOffset;
pub(crate) use recorded::Recorded;

pub(crate) const SECOND: u64 = 1_000_000_000;
pub(crate) const DAY: u64 = 86_400 * SECOND;
/// TAI at truth 0.
const EPOCH: u64 = 1_800_000_000 * SECOND;
const IA32_TSC: u32 = 0x10;
const IA32_TSC_DEADLINE: u32 = 0x6e0;
pub(crate) const KVM_SYSTEM_TIME: u32 = 0x4b56_4d01;

/// Which KVM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Kernel {
    /// Linux 5.16: KVM_CLOCK_REALTIME and KVM_CLOCK_HOST_TSC.
    pub(crate) pairs: bool,
    /// A master clock although TSC offsets differ ("KVM: x86: Allow KVM master clock
    /// mode when TSCs are offset from each other").
    pub(crate) master_with_offsets: bool,
}

/// The world: truth, and the leap second in it.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) now: Cell<u64>,
    /// The truth at which TAI's offset goes from 37 to 38 s.
    pub(crate) leap: u64,
    pub(crate) chance: RefCell<SplitMix64>,
}

impl World {
    fn offset_s(&self) -> u64 {
        if self.now.get() < self.leap { 37 } else { 38 }
    }

    fn takes(&self, ns: u64) {
        self.now.set(self.now.get() + ns);
    }

    fn below(&self, end: u64) -> u64 {
        self.chance.borrow_mut().below(end)
    }
}

/// A host.
#[derive(Debug)]
pub(crate) struct Host<'w> {
    pub(crate) world: &'w World,
    pub(crate) kernel: Kernel,
    /// The true rate of its TSC.
    pub(crate) hz: u64,
    /// The rate that its kernel measured at boot.
    pub(crate) khz: u64,
    /// The TSC at truth `booted`.
    pub(crate) tsc_at_boot: u64,
    pub(crate) booted: u64,
    /// Its time of day less the truth.
    pub(crate) real_error: Cell<i64>,
    /// How far the time of day is stepped in the next KVM_SET_CLOCK that counts in it, as
    /// an NTP daemon or a leap second may.
    pub(crate) steps: Cell<i64>,
    pub(crate) knows_tai: bool,
    pub(crate) fraction_bits: Option<u32>,
    /// How much later KVM_SET_CLOCK reads the time of day than the raw clock, ns.
    pub(crate) set_lag: u64,
}

impl Host<'_> {
    pub(crate) fn tsc_at(&self, truth: u64) -> u64 {
        let ran = truth - self.booted;
        let cycles = u128::from(ran) * u128::from(self.hz) / u128::from(SECOND);
        self.tsc_at_boot.wrapping_add(cycles as u64)
    }

    pub(crate) fn tsc(&self) -> u64 {
        self.tsc_at(self.world.now.get())
    }

    /// The truth at which the TSC read this.
    pub(crate) fn truth_at(&self, tsc: u64) -> u64 {
        let cycles = tsc.wrapping_sub(self.tsc_at_boot);
        self.booted + (u128::from(cycles) * u128::from(SECOND)).div_ceil(self.hz.into()) as u64
    }

    /// CLOCK_MONOTONIC_RAW: the TSC by the kernel's kHz.
    fn raw_at(&self, tsc: u64) -> u64 {
        let cycles = tsc.wrapping_sub(self.tsc_at_boot);
        (u128::from(cycles) * 1_000_000 / u128::from(self.khz)) as u64
    }

    fn raw(&self) -> u64 {
        self.raw_at(self.tsc())
    }

    fn real(&self) -> u64 {
        let utc = EPOCH + self.world.now.get() - self.world.offset_s() * SECOND;
        utc.saturating_add_signed(self.real_error.get())
    }

    pub(crate) fn tsc_of_kvm(&self) -> HostTsc {
        let frequency = Hertz(self.khz * 1_000);
        match self.fraction_bits {
            Some(bits) => HostTsc::scaled(frequency, bits),
            None => HostTsc::unscaled(frequency),
        }
    }
}

/// kvm->arch.
#[derive(Debug)]
pub(crate) struct ModelVm<'h> {
    pub(crate) host: &'h Host<'h>,
    /// kvmclock_offset, wrapping.
    offset: Cell<u64>,
    /// use_master_clock, with master_cycle_now and master_kernel_ns.
    master: Cell<Option<(u64, u64)>>,
    pub(crate) vcpus: Vec<ModelVcpu<'h>>,
    /// How often the clock was set.
    pub(crate) sets: Cell<u32>,
    /// The truth at each KVM_GET_CLOCK.
    pub(crate) read_at: RefCell<Vec<u64>>,
}

/// vcpu->arch.
#[derive(Debug)]
pub(crate) struct ModelVcpu<'h> {
    pub(crate) host: &'h Host<'h>,
    khz: Cell<u64>,
    /// l1_tsc_scaling_ratio, if not the default.
    ratio: Cell<Option<u64>>,
    pub(crate) catchup: Cell<bool>,
    offset: Cell<u64>,
    /// The truth at which the local APIC's timer fires.
    pub(crate) timer: Cell<Option<u64>>,
    pub(crate) stopped: Cell<bool>,
    /// last_tsc_write and last_tsc_nsec of the VM, as this vCPU's writes left them.
    last_write: Cell<(u64, u64)>,
    deadline: Cell<u64>,
    pub(crate) system_time: Cell<u64>,
}

impl<'h> ModelVm<'h> {
    /// A VM whose vCPUs' TSCs began at 0 with it.
    pub(crate) fn new(host: &'h Host<'h>, vcpus: usize) -> Self {
        host.world.takes(100_000 + host.world.below(5_000_000));
        let began = host.tsc().wrapping_neg();
        let vcpu = || ModelVcpu {
            host,
            khz: Cell::new(host.khz),
            ratio: Cell::new(None),
            catchup: Cell::new(false),
            offset: Cell::new(began),
            timer: Cell::new(None),
            stopped: Cell::new(false),
            last_write: Cell::new((0, host.raw())),
            deadline: Cell::new(0),
            system_time: Cell::new(0),
        };
        Self {
            host,
            offset: Cell::new(host.raw().wrapping_neg()),
            // None until one is asked for: by an entry, or KVM_SET_CLOCK.
            master: Cell::new(None),
            vcpus: (0..vcpus).map(|_| vcpu()).collect(),
            sets: Cell::new(0),
            read_at: RefCell::default(),
        }
    }

    /// pvclock_update_vm_gtod_copy.
    fn update_master(&self) {
        let first = self.vcpus.first().map(|vcpu| (vcpu.offset.get(), vcpu.khz.get()));
        let matched =
            self.vcpus.iter().all(|vcpu| Some((vcpu.offset.get(), vcpu.khz.get())) == first);
        let has = matched || self.host.kernel.master_with_offsets;
        let tsc = self.host.tsc();
        self.master.set(has.then_some((tsc, self.host.raw_at(tsc))));
    }

    /// The vCPUs enter: KVM_REQ_MASTERCLOCK_UPDATE, then kvm_guest_time_update.
    pub(crate) fn enter(&self) {
        self.host.world.takes(2_000 + self.host.world.below(50_000));
        self.update_master();
    }

    /// What a guest reads from its page when the host's TSC is `tsc`.
    pub(crate) fn guest_clock_at(&self, tsc: u64) -> u64 {
        let (cycles, kernel_ns) = self.master.get().unwrap_or((tsc, self.host.raw_at(tsc)));
        let since = tsc.wrapping_sub(cycles).cast_signed();
        let ns = i128::from(since) * 1_000_000 / i128::from(self.host.khz);
        kernel_ns.wrapping_add(self.offset.get()).wrapping_add(ns as i64 as u64)
    }
}

impl KvmVm for ModelVm<'_> {
    fn get_clock(&self) -> Result<kvm_clock_data, Error> {
        let world = self.host.world;
        world.takes(100 + world.below(2_000));
        let mut data = kvm_clock_data::default();
        let tsc = self.host.tsc();
        data.clock = self.guest_clock_at(tsc);
        self.read_at.borrow_mut().push(world.now.get());
        if self.master.get().is_some() {
            data.flags |= KVM_CLOCK_TSC_STABLE;
            if self.host.kernel.pairs {
                data.flags |= KVM_CLOCK_REALTIME | KVM_CLOCK_HOST_TSC;
                (data.realtime, data.host_tsc) = (self.host.real(), tsc);
            }
        }
        world.takes(100 + world.below(2_000));
        Ok(data)
    }

    fn set_clock(&self, data: &kvm_clock_data) -> Result<(), Error> {
        self.sets.set(self.sets.get() + 1);
        if data.flags & KVM_CLOCK_REALTIME != 0 {
            self.host.real_error.set(self.host.real_error.get() + self.host.steps.take());
        }
        let world = self.host.world;
        world.takes(100 + world.below(5_000));
        if data.flags != 0 && !self.host.kernel.pairs {
            let error = kvm_ioctls::Error::new(libc::EINVAL);
            return Err(Error::Call { call: "KVM_SET_CLOCK", error });
        }
        self.update_master();
        let mut clock = data.clock;
        let raw = self.master.get().map(|(_, raw)| raw);
        if data.flags & KVM_CLOCK_REALTIME != 0 {
            // With interrupts off; a System Management Interrupt comes through.
            let lag = self.host.set_lag + world.below(4);
            world.takes(lag + if world.below(50) == 0 { world.below(3_000) } else { 0 });
            clock = clock.wrapping_add(self.host.real().saturating_sub(data.realtime));
        }
        let raw = raw.unwrap_or_else(|| self.host.raw());
        self.offset.set(clock.wrapping_sub(raw));
        world.takes(100 + world.below(2_000));
        Ok(())
    }

    fn host_clocks(&self) -> HostReading {
        let world = self.host.world;
        world.takes(100 + world.below(400));
        let before = self.host.tsc();
        world.takes(world.below(20));
        let boot = Nanos(self.host.raw());
        world.takes(world.below(20));
        let real = UnixTime(Nanos(self.host.real()));
        let tai = self.host.knows_tai.then_some(world.offset_s() as i32);
        let width = self.host.tsc() - before;
        let clocks = HostClocks::new(Ticks(before + width / 2), boot, real);
        HostReading { clocks: clocks.changed(|new| new.tai_offset_s = tai), width }
    }
}

impl ModelVcpu<'_> {
    /// kvm_read_l1_tsc, at a TSC of the host.
    pub(crate) fn guest_tsc_at(&self, tsc: u64) -> u64 {
        self.scaled(tsc).wrapping_add(self.offset.get())
    }

    pub(crate) fn guest_tsc(&self) -> u64 {
        self.guest_tsc_at(self.host.tsc())
    }

    fn scaled(&self, tsc: u64) -> u64 {
        match (self.ratio.get(), self.host.fraction_bits) {
            (Some(ratio), Some(bits)) => ((u128::from(tsc) * u128::from(ratio)) >> bits) as u64,
            _ => tsc,
        }
    }

    pub(crate) fn khz(&self) -> u64 {
        self.khz.get()
    }
}

impl KvmVcpu for ModelVcpu<'_> {
    fn tsc_khz(&self) -> Result<u32, Error> {
        Ok(self.khz.get() as u32)
    }

    /// kvm_set_tsc_khz and set_tsc_khz.
    fn set_tsc_khz(&self, khz: u32) -> Result<(), Error> {
        self.host.world.takes(500);
        let refused = Err(Error::Call {
            call: "KVM_SET_TSC_KHZ",
            error: kvm_ioctls::Error::new(libc::EINVAL),
        });
        let (user, host) = (u64::from(khz), self.host.khz);
        let (low, high) = (host * 999_750 / 1_000_000, host * 1_000_250 / 1_000_000);
        if (low..=high).contains(&user) {
            self.khz.set(user);
            self.ratio.set(None);
            return Ok(());
        }
        let Some(bits) = self.host.fraction_bits else {
            if user < host {
                return refused;
            }
            self.khz.set(user);
            self.catchup.set(true);
            return Ok(());
        };
        let ratio = (1_u128 << bits) * u128::from(user) / u128::from(host);
        let most = if bits == 32 { (1 << 40) - 1 } else { u128::from(u64::MAX) };
        if ratio == 0 || ratio >= most {
            return refused;
        }
        self.khz.set(user);
        self.ratio.set(Some(ratio as u64));
        Ok(())
    }

    fn tsc_offset(&self) -> Result<u64, Error> {
        Ok(self.offset.get())
    }

    fn set_tsc_offset(&self, offset: u64) -> Result<u64, Error> {
        self.host.world.takes(500);
        self.offset.set(offset);
        Ok(offset)
    }

    fn msr(&self, index: u32) -> Result<Option<u64>, Error> {
        Ok(match index {
            IA32_TSC_DEADLINE => Some(self.deadline.get()),
            IA32_TSC => Some(self.guest_tsc()),
            KVM_SYSTEM_TIME => Some(self.system_time.get()),
            _ => None,
        })
    }

    fn set_msr(&self, index: u32, value: u64) -> Result<bool, Error> {
        self.host.world.takes(500);
        match index {
            // start_sw_tscdeadline: from the TSC as it is now.
            IA32_TSC_DEADLINE => {
                let cycles = value.wrapping_sub(self.guest_tsc()).cast_signed().max(0) as u128;
                let ns = cycles * 1_000_000 / u128::from(self.khz.get());
                self.timer.set(Some(self.host.world.now.get() + ns as u64));
                self.deadline.set(value);
                Ok(true)
            }
            KVM_SYSTEM_TIME => {
                self.system_time.set(value);
                Ok(true)
            }
            // kvm_synchronize_tsc, for a write by the host.
            IA32_TSC => {
                let ns = self.host.raw();
                let (last, last_ns) = self.last_write.get();
                let elapsed = ns.wrapping_sub(last_ns);
                let expected = last.wrapping_add(
                    (u128::from(elapsed) * u128::from(self.khz.get()) / 1_000_000) as u64,
                );
                let second = self.khz.get() * 1_000;
                let is_near = value.wrapping_sub(expected).cast_signed().unsigned_abs() < second;
                if value != 0 && !is_near {
                    self.offset.set(value.wrapping_sub(self.scaled(self.host.tsc())));
                }
                self.last_write.set((value, ns));
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    fn announce_stop(&self) -> Result<bool, Error> {
        // kvm_set_guest_paused refuses a vCPU without a page.
        self.stopped.set(self.system_time.get() & 1 == 1);
        Ok(self.stopped.get())
    }
}
