//! One vCPU's state in the host.

use pvclock::Nanos;
use pvclock::kvm_clock::{TimeUpdate, TimeWriter};
use pvclock::steal_time::{StealReader, StealWriter};

use crate::due::OwnFlag;
use crate::msr::PageMsr;
use crate::pages::{StealPage, TimePage};
use crate::tsc::Source;
use crate::{ClockMemory, HostClocks};

/// The updates due before the vCPU enters the guest again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Due {
    /// Its time page.
    pub(crate) time: bool,
    /// GUEST_STOPPED in it.
    pub(crate) stopped: bool,
    /// Its steal time page.
    pub(crate) steal: bool,
    /// The VM's Hyper-V page, which nothing has written since a restore.
    pub(crate) reference: bool,
}

impl Due {
    #[inline]
    pub(crate) const fn is_nothing(self) -> bool {
        !(self.time | self.stopped | self.steal | self.reference)
    }
}

/// One vCPU.
#[derive(Debug, Clone)]
pub(crate) struct Vcpu {
    /// Where its TSC comes from: the base.
    pub(crate) source: Source,
    /// Its TSC less the base, wrapping.
    pub(crate) tsc_offset: u64,
    /// Where it ran last.
    pub(crate) physical_cpu: Option<u32>,
    pub(crate) system_time: PageMsr,
    pub(crate) steal_time: PageMsr,
    pub(crate) due: Due,
    /// Whether anything is due, as its thread sees it.
    pub(crate) flag: OwnFlag,
    /// The content of its time page, in terms of the base.
    pub(crate) snapshot: Option<TimeUpdate>,
    /// Total stolen time, as last measured, and as published in its page.
    pub(crate) stolen: Nanos,
    pub(crate) stolen_published: Nanos,
}

impl Vcpu {
    pub(crate) fn new(source: Source, tsc_offset: u64) -> Self {
        Self {
            source,
            tsc_offset,
            physical_cpu: None,
            system_time: PageMsr::default(),
            steal_time: PageMsr::default(),
            due: Due::default(),
            flag: OwnFlag::default(),
            snapshot: None,
            stolen: Nanos(0),
            stolen_published: Nanos(0),
        }
    }

    /// Its TSC.
    pub(crate) const fn tsc(&self, now: HostClocks) -> u64 {
        self.source.base(now).wrapping_add(self.tsc_offset)
    }

    /// Another source, whose base is `by` ahead of the old one's, wrapping: its TSC
    /// and its snapshot do not move.
    pub(crate) fn change_source(&mut self, source: Source, by: u64) {
        self.source = source;
        self.tsc_offset = self.tsc_offset.wrapping_sub(by);
        if let Some(snapshot) = &mut self.snapshot {
            snapshot.tsc_timestamp = snapshot.tsc_timestamp.wrapping_add(by);
        }
    }

    /// Its time page is due, if it has one.
    #[inline]
    pub(crate) fn time_is_due(&mut self) {
        self.due.time = self.system_time.page().is_some();
    }

    /// GUEST_STOPPED is due, if it has a page for it.
    pub(crate) fn stop_is_due(&mut self) {
        self.due.stopped = self.system_time.page().is_some();
        self.time_is_due();
    }

    /// Switches its pages off.
    pub(crate) fn reset(&mut self) {
        self.system_time = PageMsr::default();
        self.steal_time = PageMsr::default();
        self.due = Due::default();
        self.snapshot = None;
    }

    /// Writes its time page: `snapshot` is in terms of the base.
    #[inline]
    pub(crate) fn write_time(&mut self, snapshot: TimeUpdate, memory: &impl ClockMemory) {
        let stopped = self.due.stopped;
        (self.due.time, self.due.stopped) = (false, false);
        let Some(address) = self.system_time.page() else { return };
        let tsc_timestamp = snapshot.tsc_timestamp.wrapping_add(self.tsc_offset);
        let update = TimeUpdate { tsc_timestamp, ..snapshot };
        // The address was valid when it was registered. If the VMM has removed
        // that memory since, there is nothing to write.
        self.snapshot = None;
        let Ok(page) = memory.page::<TimePage>(address) else { return };
        let mut writer = TimeWriter::new(page);
        if stopped {
            writer.write_stopped(&update);
        } else {
            writer.write(&update);
        }
        memory.written(address, size_of::<TimePage>());
        self.snapshot = Some(snapshot);
    }

    /// Adds the time stolen since the last update to its steal time page: the
    /// sum continues from the page's value, so that it survives a migration.
    pub(crate) fn write_steal(&mut self, memory: &impl ClockMemory) {
        self.due.steal = false;
        let Some(address) = self.steal_time.page() else { return };
        let Ok(page) = memory.page::<StealPage>(address) else { return };
        // A page in the middle of an update holds no sum.
        let held = StealReader::new(page).with_tries(1).read().map_or(0, |info| info.steal.0);
        let more = self.stolen.0.saturating_sub(self.stolen_published.0);
        self.stolen_published = self.stolen;
        // No TLB flush can have been requested: CPUID does not offer it.
        StealWriter::new(page).write(Nanos(held.wrapping_add(more)));
        memory.written(address, size_of::<StealPage>());
    }

    /// Sets the flag that it was taken off its physical CPU.
    pub(crate) fn write_preempted(&mut self, memory: &impl ClockMemory) {
        let Some(address) = self.steal_time.page() else { return };
        if let Ok(page) = memory.page::<StealPage>(address) {
            StealWriter::new(page).set_preempted();
            memory.written(address, size_of::<StealPage>());
            // The flag is cleared before it runs again.
            self.due.steal = true;
        }
    }
}
