//! One VM's clock: its state, and how a line is drawn.
//!
//! The VM's clock counts the host's boot time, from a zero of its own. What a
//! guest reads is a *line* through that clock: a TSC value, the time at it,
//! and the rate told. Between two updates the guest follows the line, not the
//! host's clock; an update draws a new line from the clock (KVM:
//! kvm_guest_time_update, arch/x86/kvm/x86.c).
//!
//! Lines are kept in terms of the TSC's *base*, which all vCPUs share; a page
//! gets the same line moved by its vCPU's offset. So a changed offset changes
//! no line, and with equal offsets all pages are equal.

mod entry;
mod events;
pub(crate) mod hyperv;
mod kvm;
mod msrs;
mod transfer;

use alloc::collections::BTreeMap;

use pvclock::kvm_clock::TimeUpdate;
use pvclock::{Hertz, Nanos, Scale};

use self::hyperv::HyperV;
use crate::cpuid;
use crate::log::Log;
use crate::tsc::{Source, along};
use crate::vcpu::Vcpu;
use crate::{
    GuestMemory, Kind, Leaf, LogEntry, LogEvent, MsrRange, PerVcpu, Reading, Settings,
    SettingsError, TscMode, VcpuId,
};

/// One VM's clock.
///
/// The VMM calls it from one thread at a time. While an event is handled that
/// says so ([`Event::stops_all`](crate::Event::stops_all)) no vCPU runs guest
/// code, and each is given its [`before_entry`](Host::before_entry) before it
/// does again.
///
/// ```
/// use host::{Event, GuestMemory, GuestClock, Kind, PlainMemory, Reading, Settings, VcpuId};
/// use units::UnixTime;
/// use host::msr::KVM_SYSTEM_TIME;
/// use pvclock::kvm_clock::{TimePage, TimeReader};
/// use pvclock::{Hertz, Nanos, Ticks};
///
/// // At host TSC `tsc`, of 1 GHz: what a VMM reads from its host's clocks.
/// let at = |tsc| Reading {
///     tsc: Ticks(tsc),
///     boot: Nanos(tsc),
///     real: UnixTime(Nanos(1_800_000_000_000_000_000 + tsc)),
/// };
/// let memory = PlainMemory::new(1);
/// let mut host = GuestClock::new(Settings::new(Kind::Kvm, Hertz(1_000_000_000)), at(5_000))?;
/// let vcpu = VcpuId(0);
/// host.handle(Event::VcpuCreated { vcpu, tsc_offset: 0 }, at(5_000), &memory);
///
/// // The guest registers its page, and enters again.
/// let address = PlainMemory::time(0);
/// host.write_msr(vcpu, KVM_SYSTEM_TIME, address.0 | 1, at(5_100), &memory)?;
/// host.before_entry(vcpu, at(5_200), &memory);
/// let page: &TimePage = memory.page(address)?;
/// assert_eq!(TimeReader::new(page).nanos(&|| 5_300), Ok(Nanos(300)));
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct GuestClock {
    settings: Settings,
    /// Of the rate told.
    scale: Scale,
    source: Source,
    /// The VM's clock less the host's boot clock, wrapping.
    clock_offset: u64,
    physical_tscs_agree: bool,
    /// The line of all vCPUs, or why there is none.
    master: Result<TimeUpdate, PerVcpu>,
    vcpus: BTreeMap<VcpuId, Vcpu>,
    /// The latest time that any vCPU can have read when this was last set.
    told: Nanos,
    boot_vcpu_uses_old_msr: bool,
    wall_clock: u64,
    hyperv: HyperV,
    paused: bool,
    /// When all pages are to be written after one was registered.
    all_due_at: Option<Nanos>,
    sync_due_at: Option<Nanos>,
    /// The last reading seen, at an event or an entry: whether the TSC went
    /// back in a sleep, and from where.
    latest: Reading,
    log: Log,
}

impl GuestClock {
    /// A new VM's clock, which says 0 now.
    ///
    /// # Errors
    /// [`SettingsError`].
    pub fn new(settings: Settings, now: Reading) -> Result<Self, SettingsError> {
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
            physical_tscs_agree: true,
            master: Err(PerVcpu::NoVcpu),
            vcpus: BTreeMap::new(),
            told: Nanos(0),
            boot_vcpu_uses_old_msr: false,
            wall_clock: 0,
            hyperv: HyperV::default(),
            paused: false,
            all_due_at: None,
            sync_due_at: settings.sync_period.map(|period| after(now.boot, period)),
            latest: now,
            log: Log::default(),
        };
        host.log_told(now);
        Ok(host)
    }

    /// What it is made from; the rate told and the host's clocksource are as
    /// events have left them.
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// A CPUID leaf of the provider's; `None` is the VMM's to answer. No leaf
    /// here depends on its index.
    pub fn cpuid(&self, function: u32, _index: u32) -> Option<Leaf> {
        cpuid::leaf(&self.settings, function)
    }

    /// All of its leaves, for KVM_SET_CPUID2.
    pub fn cpuid_leaves(&self) -> impl Iterator<Item = (u32, Leaf)> {
        cpuid::functions(self.settings.kind)
            .iter()
            .filter_map(|&function| Some((function, cpuid::leaf(&self.settings, function)?)))
    }

    /// The MSRs that it answers, for KVM_X86_SET_MSR_FILTER.
    pub const fn msrs(&self) -> &'static [MsrRange] {
        self.settings.kind.msrs()
    }

    /// Whether all vCPUs share one line, with TSC_STABLE.
    pub const fn master_clock(&self) -> bool {
        self.master.is_ok()
    }

    /// Why they do not.
    pub fn why_per_vcpu(&self) -> Option<PerVcpu> {
        self.master.err()
    }

    /// Whether RDTSC is to be trapped now, and answered by
    /// [`GuestClock::guest_tsc`]. It can change with a restore, and with a write to
    /// the MSR that ends an emulation after one.
    pub const fn traps_tsc(&self) -> bool {
        matches!(self.source, Source::Emulated { .. })
    }

    /// A vCPU's TSC.
    pub fn guest_tsc(&self, vcpu: VcpuId, now: Reading) -> Option<u64> {
        self.tsc_offset(vcpu).map(|offset| self.source.base(now).wrapping_add(offset))
    }

    /// What the VMM has to set as a vCPU's TSC offset (TSC less host TSC, or
    /// less the scaled one), while the TSC is not trapped.
    pub fn tsc_offset(&self, vcpu: VcpuId) -> Option<u64> {
        self.vcpus.get(&vcpu).map(|vcpu| vcpu.tsc_offset)
    }

    /// The vCPUs that have an update to come at their next entry. Who wants
    /// it done soon brings them out of the guest.
    pub fn due(&self) -> impl Iterator<Item = VcpuId> {
        self.vcpus.iter().filter(|(_, vcpu)| !vcpu.due.is_nothing()).map(|(&id, _)| id)
    }

    /// When to send [`Event::Timer`](crate::Event::Timer), by the host's boot
    /// clock.
    pub fn deadline(&self) -> Option<Nanos> {
        match (self.all_due_at, self.sync_due_at) {
            (Some(all), Some(sync)) => Some(all.min(sync)),
            (all, sync) => all.or(sync),
        }
    }

    /// What the guest's clock says on this vCPU, as it would read it now; the
    /// VM's clock where it has no page. For Hyper-V cut to 100 ns.
    pub fn time(&self, vcpu: VcpuId, now: Reading) -> Nanos {
        if self.settings.kind == Kind::HyperV {
            return Nanos(self.reference_units(vcpu, now).saturating_mul(100));
        }
        match self.vcpus.get(&vcpu) {
            Some(Vcpu { line: Some(line), system_time, .. }) if system_time.page().is_some() => {
                along(line, self.source.base(now))
            }
            _ => self.clock(now),
        }
    }

    /// Which rate the guest was told and why its pages are as they are, the
    /// latest 256 entries, oldest first.
    pub fn calibration_log(&self) -> impl Iterator<Item = &LogEntry> {
        self.log.iter()
    }

    /// The VM's clock as its guest has it: along the common line, if there is
    /// one (KVM: get_kvmclock).
    fn clock(&self, now: Reading) -> Nanos {
        match &self.master {
            Ok(line) => along(line, self.source.base(now)),
            Err(_) if self.settings.never_back => self.clock_of_host(now).max(self.told),
            Err(_) => self.clock_of_host(now),
        }
    }

    /// The VM's clock as the host has it.
    #[inline]
    const fn clock_of_host(&self, now: Reading) -> Nanos {
        Nanos(now.boot.0.wrapping_add(self.clock_offset))
    }

    /// The latest time that any vCPU can have read.
    fn furthest(&self, now: Reading) -> Nanos {
        let base = self.source.base(now);
        let lines = self.vcpus.values().filter_map(|vcpu| vcpu.line.as_ref());
        let read = lines.chain(self.master.as_ref().ok()).map(|line| along(line, base));
        read.chain(self.hyperv.time_told(base)).fold(self.told, Nanos::max)
    }

    /// The line from the clock now, at `told` at the least where time must
    /// not go back.
    #[inline]
    fn draw(&self, now: Reading, told: Nanos, stable: bool) -> TimeUpdate {
        let clock = self.clock_of_host(now);
        TimeUpdate {
            tsc_timestamp: self.source.base(now),
            system_time: if self.settings.never_back { clock.max(told) } else { clock },
            scale: self.scale,
            stable,
        }
    }

    /// The conditions of a master clock. An emulated TSC is the host's clock
    /// itself, whatever that is based on.
    fn master_clock_rule(&self) -> Result<(), PerVcpu> {
        let real = matches!(self.source, Source::Real { .. });
        let mut offsets = self.vcpus.values().map(|vcpu| vcpu.tsc_offset);
        let Some(first) = offsets.next() else { return Err(PerVcpu::NoVcpu) };
        if real && !self.settings.host_clocksource_is_tsc {
            Err(PerVcpu::HostClocksource)
        } else if real && !self.physical_tscs_agree {
            Err(PerVcpu::PhysicalTscs)
        } else if offsets.any(|offset| offset != first) {
            Err(PerVcpu::TscOffsets)
        } else if self.boot_vcpu_uses_old_msr {
            Err(PerVcpu::OldMsr)
        } else {
            Ok(())
        }
    }

    /// Draws the line anew, or finds that there can be none; all pages are
    /// due. No vCPU runs.
    fn recompute(&mut self, now: Reading, memory: &impl GuestMemory) {
        self.told = self.furthest(now);
        self.redraw(now, memory);
    }

    fn redraw(&mut self, now: Reading, memory: &impl GuestMemory) {
        self.draw_master(now);
        self.all_are_due();
        self.publish_reference(memory);
    }

    fn draw_master(&mut self, now: Reading) {
        let before = self.why_per_vcpu();
        self.master = self.master_clock_rule().map(|()| self.draw(now, self.told, true));
        let after = self.why_per_vcpu();
        if before != after {
            let what = after.map_or(LogEvent::MasterClock, LogEvent::PerVcpu);
            self.log.push(now.boot, what);
        }
    }

    fn recompute_if_changed(&mut self, now: Reading, memory: &impl GuestMemory) {
        if self.master_clock_rule().err() != self.why_per_vcpu() {
            self.recompute(now, memory);
        }
    }

    fn all_are_due(&mut self) {
        for vcpu in self.vcpus.values_mut() {
            vcpu.time_is_due();
        }
    }

    /// Another source of the TSC, or the same after a jump: the base moved by
    /// `by`, wrapping. No vCPU's TSC and no line does.
    fn rebase(&mut self, by: u64) {
        let moved = |line: &mut TimeUpdate| {
            line.tsc_timestamp = line.tsc_timestamp.wrapping_add(by);
        };
        for vcpu in self.vcpus.values_mut() {
            vcpu.tsc_offset = vcpu.tsc_offset.wrapping_sub(by);
            vcpu.line.iter_mut().for_each(moved);
        }
        self.master.iter_mut().for_each(moved);
        self.hyperv.rebase(by);
    }

    fn tell(&mut self, told: Hertz, now: Reading) {
        let settings = Settings { advertised_tsc: told, ..self.settings };
        match settings.scale() {
            Ok(scale) => {
                if let Source::Emulated { .. } = self.source {
                    let at = self.source.base(now);
                    self.source = Source::Emulated { since: now.boot, at, rate: told };
                }
                (self.settings, self.scale) = (settings, scale);
                self.log_told(now);
            }
            Err(SettingsError::Told(error)) => self.log.push(now.boot, LogEvent::Refused(error)),
            // The rest of the settings stood up before.
            Err(_) => {}
        }
    }

    fn log_told(&mut self, now: Reading) {
        let Settings { advertised_tsc: told, host_tsc: host, frequency_from: by, .. } =
            self.settings;
        self.log.push(now.boot, LogEvent::Told { told, host, by });
    }
}

const fn after(time: Nanos, span: Nanos) -> Nanos {
    Nanos(time.0.saturating_add(span.0))
}
