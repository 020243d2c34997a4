//! One VM's clock: its state, and how a snapshot of it is taken.
//!
//! The VM's clock counts the host's boot time, from a zero of its own. A guest
//! reads a *snapshot* of that clock: a TSC value, the time at it, and the
//! advertised frequency. Between two updates the guest extrapolates from the
//! snapshot and does not follow the host's clock; an update takes a new
//! snapshot (KVM: kvm_guest_time_update, arch/x86/kvm/x86.c).
//!
//! Snapshots are kept in terms of the TSC's *base*, which all vCPUs share; a
//! page gets the same snapshot moved by its vCPU's offset. So a changed offset
//! changes no snapshot, and with equal offsets all pages are equal.

mod events;
mod hyperv;
mod kvm;
mod msrs;
mod transfer;

use alloc::collections::{BTreeMap, BTreeSet};

use pvclock::kvm_clock::TimeUpdate;
use pvclock::{Hertz, Nanos, Scale};

use crate::cpuid;
use crate::hyperv::HyperV;
use crate::log::HostLog;
use crate::tsc::{Source, time_at};
use crate::vcpu::Vcpu;
use crate::{
    ClockMemory, ClockProvider, ClockSettings, DueFlag, HostClocks, HostLogEvent, Leaf, LogEntry,
    MsrRange, PerVcpu, SettingsError, TscMode, VcpuId,
};

/// One VM's clock.
///
/// The VMM calls it from one thread at a time. While it handles an event with
/// [`HostEvent::stops_all`](crate::HostEvent::stops_all) no vCPU runs guest code, and
/// each gets its [`before_entry`](GuestClock::before_entry) before it runs
/// again.
///
/// ```
/// use pvclock_host::{HostEvent, ClockMemory, GuestClock, ClockProvider, PlainMemory, HostClocks, ClockSettings, VcpuId};
/// use pvclock::units::UnixTime;
/// use pvclock_host::msr::KVM_SYSTEM_TIME;
/// use pvclock_host::pages::TimePage;
/// use pvclock::kvm_clock::TimeReader;
/// use pvclock::{Hertz, Nanos, Ticks};
///
/// // At host TSC `tsc`, of 1 GHz: what a VMM reads from its host's clocks.
/// let at = |tsc| HostClocks::new(Ticks(tsc), Nanos(tsc), UnixTime(Nanos(1_800_000_000_000_000_000 + tsc)));
/// let memory = PlainMemory::new(1);
/// let mut host = GuestClock::new(ClockSettings::new(ClockProvider::Kvm, Hertz(1_000_000_000)), at(5_000))?;
/// let vcpu = VcpuId(0);
/// host.handle(HostEvent::VcpuCreated { vcpu, tsc_offset: 0 }, at(5_000), &memory);
///
/// // The guest registers its page and enters again.
/// let address = PlainMemory::time(0);
/// host.write_msr(vcpu, KVM_SYSTEM_TIME, address.0 | 1, at(5_100), &memory)?;
/// host.before_entry(vcpu, at(5_200), &memory);
/// let page: &TimePage = memory.page(address)?;
/// assert_eq!(TimeReader::new(page).nanos(&|| 5_300), Ok(Nanos(300)));
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct GuestClock {
    settings: ClockSettings,
    /// Of the advertised TSC frequency.
    scale: Scale,
    /// The first vCPU's, which is all others' too while there is a master clock.
    source: Source,
    /// The VM's clock less the host's boot clock, wrapping.
    clock_offset: u64,
    /// Physical CPUs that are online with a TSC of their own.
    strays: BTreeSet<u32>,
    /// The snapshot of all vCPUs, or why there is none.
    master: Result<TimeUpdate, PerVcpu>,
    vcpus: BTreeMap<VcpuId, Vcpu>,
    /// The latest time that any vCPU can have read when this was last set.
    latest_read: Nanos,
    boot_vcpu_uses_old_msr: bool,
    wall_clock: u64,
    hyperv: HyperV,
    paused: bool,
    /// When all pages are to be written after one was registered.
    all_due_at: Option<Nanos>,
    sync_due_at: Option<Nanos>,
    /// The reading of the latest event or entry: it shows whether the TSC
    /// went back during a sleep, and from where.
    latest: HostClocks,
    log: HostLog,
}

impl GuestClock {
    /// A new VM's clock, at 0 now.
    ///
    /// # Errors
    /// [`SettingsError`].
    pub fn new(settings: ClockSettings, now: HostClocks) -> Result<Self, SettingsError> {
        let scale = settings.scale()?;
        let source = match settings.tsc_mode {
            TscMode::Real => Source::unscaled(settings.host_tsc),
            TscMode::Emulated => {
                Source::Emulated { since: now.boot, at: 0, rate: settings.advertised_tsc }
            }
        };
        let mut host = Self {
            settings,
            scale,
            source,
            clock_offset: now.boot.0.wrapping_neg(),
            strays: BTreeSet::new(),
            master: Err(PerVcpu::NoVcpu),
            vcpus: BTreeMap::new(),
            latest_read: Nanos(0),
            boot_vcpu_uses_old_msr: false,
            wall_clock: 0,
            hyperv: HyperV::default(),
            paused: false,
            all_due_at: None,
            sync_due_at: settings.sync_period.map(|period| after(now.boot, period)),
            latest: now,
            log: HostLog::default(),
        };
        host.log_advertised(now);
        Ok(host)
    }

    /// Its settings; events change the advertised TSC frequency and the host's
    /// clocksource.
    pub const fn settings(&self) -> &ClockSettings {
        &self.settings
    }

    /// A CPUID leaf of the provider; `None` for those that the VMM defines. No
    /// leaf here depends on its index.
    pub fn cpuid(&self, function: u32, _index: u32) -> Option<Leaf> {
        cpuid::leaf(&self.settings, function)
    }

    /// All of its leaves, for KVM_SET_CPUID2.
    pub fn cpuid_leaves(&self) -> impl Iterator<Item = (u32, Leaf)> {
        cpuid::functions(self.settings.kind)
            .iter()
            .filter_map(|&function| Some((function, cpuid::leaf(&self.settings, function)?)))
    }

    /// The MSRs that it handles, for KVM_X86_SET_MSR_FILTER.
    pub const fn msrs(&self) -> &'static [MsrRange] {
        self.settings.kind.msrs()
    }

    /// Whether all vCPUs share one snapshot, with TSC_STABLE.
    pub const fn master_clock(&self) -> bool {
        self.master.is_ok()
    }

    /// Why they do not.
    pub fn why_per_vcpu(&self) -> Option<PerVcpu> {
        self.master.err()
    }

    /// Whether RDTSC must be trapped now and return [`GuestClock::guest_tsc`].
    /// A restore can change it, and so can the MSR write that ends an emulation
    /// after one.
    pub const fn traps_tsc(&self) -> bool {
        matches!(self.source, Source::Emulated { .. })
    }

    /// A vCPU's TSC.
    pub fn guest_tsc(&self, vcpu: VcpuId, now: HostClocks) -> Option<u64> {
        self.vcpus.get(&vcpu).map(|vcpu| vcpu.tsc(now))
    }

    /// The TSC offset that the VMM must set for a vCPU (its TSC less the host's,
    /// or less the scaled one), while the TSC is not trapped.
    pub fn tsc_offset(&self, vcpu: VcpuId) -> Option<u64> {
        self.vcpus.get(&vcpu).map(|vcpu| vcpu.tsc_offset)
    }

    /// The vCPUs with an update due at their next entry. To have it done soon,
    /// bring them out of the guest.
    pub fn due(&self) -> impl Iterator<Item = VcpuId> {
        self.vcpus.iter().filter(|(_, vcpu)| !vcpu.due.is_nothing()).map(|(&id, _)| id)
    }

    /// A vCPU's flag, for its own thread: it shows whether an update is due without a
    /// lock and without a reading of the clocks.
    pub fn due_flag(&self, vcpu: VcpuId) -> Option<DueFlag> {
        self.vcpus.get(&vcpu).map(|vcpu| vcpu.flag.share())
    }

    /// Has each vCPU's thread see what is due; after all that may change it.
    fn raise_flags(&self) {
        for vcpu in self.vcpus.values() {
            vcpu.flag.set(!vcpu.due.is_nothing());
        }
    }

    /// When to send [`HostEvent::Timer`](crate::HostEvent::Timer), by the host's boot
    /// clock.
    pub fn deadline(&self) -> Option<Nanos> {
        match (self.all_due_at, self.sync_due_at) {
            (Some(all), Some(sync)) => Some(all.min(sync)),
            (all, sync) => all.or(sync),
        }
    }

    /// The time that the guest reads on this vCPU now; the VM's clock where it
    /// has no page. For Hyper-V cut to 100 ns.
    pub fn time(&self, vcpu: VcpuId, now: HostClocks) -> Nanos {
        if self.settings.kind == ClockProvider::HyperV {
            return Nanos(self.reference_units(vcpu, now).saturating_mul(100));
        }
        match self.vcpus.get(&vcpu) {
            Some(Vcpu { snapshot: Some(snapshot), system_time, source, .. })
                if system_time.page().is_some() =>
            {
                time_at(snapshot, source.base(now))
            }
            _ => self.clock(now),
        }
    }

    /// Advertised frequencies, and why the pages are as they are: the latest
    /// 256 entries, oldest first.
    pub fn log(&self) -> impl Iterator<Item = &LogEntry> {
        self.log.iter()
    }

    /// The VM's clock as its guest reads it: from the common snapshot, if
    /// there is one (KVM: get_kvmclock).
    fn clock(&self, now: HostClocks) -> Nanos {
        match &self.master {
            Ok(snapshot) => time_at(snapshot, self.source.base(now)),
            Err(_) if self.settings.never_back => self.clock_of_host(now).max(self.latest_read),
            Err(_) => self.clock_of_host(now),
        }
    }

    /// The VM's clock as the host computes it.
    #[inline]
    const fn clock_of_host(&self, now: HostClocks) -> Nanos {
        Nanos(now.boot.0.wrapping_add(self.clock_offset))
    }

    /// The latest time that any vCPU can have read.
    fn latest_readable(&self, now: HostClocks) -> Nanos {
        let read = |source: Source, snapshot: &TimeUpdate| time_at(snapshot, source.base(now));
        let of_vcpu = |vcpu: &Vcpu| vcpu.snapshot.as_ref().map(|taken| read(vcpu.source, taken));
        let common = self.master.as_ref().ok().map(|taken| read(self.source, taken));
        let times = self.vcpus.values().filter_map(of_vcpu).chain(common);
        let published = self.hyperv.time_published(self.source.base(now));
        times.chain(published).fold(self.latest_read, Nanos::max)
    }

    /// The clock now, and at least `floor` where time must not go back.
    #[inline]
    fn take_snapshot(
        &self,
        source: Source,
        now: HostClocks,
        floor: Nanos,
        stable: bool,
    ) -> TimeUpdate {
        let clock = self.clock_of_host(now);
        TimeUpdate {
            tsc_timestamp: source.base(now),
            system_time: if self.settings.never_back { clock.max(floor) } else { clock },
            scale: self.scale,
            stable,
        }
    }

    /// The conditions of a master clock. An emulated TSC is the host's clock
    /// itself, whatever that is based on.
    fn master_clock_rule(&self) -> Result<(), PerVcpu> {
        let real = matches!(self.source, Source::Real { .. });
        let mut others = self.vcpus.values();
        let Some(first) = others.next() else { return Err(PerVcpu::NoVcpu) };
        if real && !self.settings.host_clocksource_is_tsc {
            Err(PerVcpu::HostClocksource)
        } else if real && !self.strays.is_empty() {
            Err(PerVcpu::PhysicalTscs)
        } else if others.clone().any(|vcpu| vcpu.source.rate() != first.source.rate()) {
            Err(PerVcpu::TscRates)
        } else if others
            .any(|vcpu| (vcpu.source, vcpu.tsc_offset) != (first.source, first.tsc_offset))
        {
            Err(PerVcpu::TscOffsets)
        } else if self.boot_vcpu_uses_old_msr {
            Err(PerVcpu::OldMsr)
        } else {
            Ok(())
        }
    }

    /// Takes a new common snapshot, or finds that there can be none; all pages
    /// are due. No vCPU runs.
    fn recompute(&mut self, now: HostClocks, memory: &impl ClockMemory) {
        self.latest_read = self.latest_readable(now);
        self.republish(now, memory);
    }

    fn republish(&mut self, now: HostClocks, memory: &impl ClockMemory) {
        self.update_master(now);
        self.all_are_due();
        self.publish_reference(memory);
    }

    fn update_master(&mut self, now: HostClocks) {
        let before = self.why_per_vcpu();
        self.master = self
            .master_clock_rule()
            .map(|()| self.take_snapshot(self.source, now, self.latest_read, true));
        let after = self.why_per_vcpu();
        if before != after {
            let what = after.map_or(HostLogEvent::MasterClock, HostLogEvent::PerVcpu);
            self.log.push(now.boot, what);
        }
    }

    fn recompute_if_changed(&mut self, now: HostClocks, memory: &impl ClockMemory) {
        if self.master_clock_rule().err() != self.why_per_vcpu() {
            self.recompute(now, memory);
        }
    }

    fn all_are_due(&mut self) {
        for vcpu in self.vcpus.values_mut() {
            vcpu.time_is_due();
        }
    }

    /// Other sources of the TSCs, or the same after a jump: for each the new one, and
    /// by how much its base moved, wrapping. The vCPUs' TSCs and the snapshots do not
    /// move.
    fn change_sources(&mut self, change: impl Fn(Source) -> (Source, u64)) {
        for vcpu in self.vcpus.values_mut() {
            let (source, by) = change(vcpu.source);
            vcpu.change_source(source, by);
        }
        let (source, by) = change(self.source);
        self.change_own_source(source, by);
    }

    fn change_own_source(&mut self, source: Source, by: u64) {
        self.source = source;
        if let Ok(snapshot) = &mut self.master {
            snapshot.tsc_timestamp = snapshot.tsc_timestamp.wrapping_add(by);
        }
        self.hyperv.rebase(by);
    }

    /// A vCPU's TSC runs at another rate, from its value of now; `false` where nothing
    /// can run it so.
    fn rate_changed(&mut self, id: VcpuId, rate: Hertz, now: HostClocks) -> bool {
        let is_first = self.vcpus.keys().next() == Some(&id);
        let Some(vcpu) = self.vcpus.get_mut(&id) else { return true };
        let source = vcpu.source.at_rate(rate, &self.settings, now);
        let (Ok(source), Ok(_)) = (source, Scale::from_hertz(rate)) else { return false };
        let by = source.base(now).wrapping_sub(vcpu.source.base(now));
        vcpu.change_source(source, by);
        if is_first {
            self.change_own_source(source, by);
        }
        true
    }

    fn advertise(&mut self, advertised_tsc: Hertz, now: HostClocks) {
        let settings = ClockSettings { advertised_tsc, ..self.settings };
        match settings.scale() {
            Ok(scale) => {
                if let Source::Emulated { .. } = self.source {
                    let at = self.source.base(now);
                    let told = Source::Emulated { since: now.boot, at, rate: advertised_tsc };
                    self.change_sources(|source| (told, at.wrapping_sub(source.base(now))));
                }
                (self.settings, self.scale) = (settings, scale);
                self.log_advertised(now);
            }
            Err(SettingsError::AdvertisedTsc(error)) => {
                self.log.push(now.boot, HostLogEvent::FrequencyRefused(error))
            }
            // The other settings were checked when the clock was created.
            Err(_) => {}
        }
    }

    fn log_advertised(&mut self, now: HostClocks) {
        let ClockSettings {
            advertised_tsc: advertised, host_tsc: host, frequency_from: from, ..
        } = self.settings;
        self.log.push(now.boot, HostLogEvent::TscAdvertised { advertised, host, from });
    }
}

const fn after(time: Nanos, span: Nanos) -> Nanos {
    Nanos(time.0.saturating_add(span.0))
}
