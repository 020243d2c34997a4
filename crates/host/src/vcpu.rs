//! What the host keeps of one vCPU.

use pvclock::Nanos;
use pvclock::kvm_clock::{TimePage, TimeUpdate, TimeWriter};
use pvclock::shared::{Aligned, Memory, Split};
use pvclock::steal_time::{StealPage, StealReader, StealWriter};

use crate::msr::PageMsr;
use crate::{GuestAddress, GuestMemory, Misplaced};

/// What is to be written before the vCPU enters the guest again.
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
    /// Its TSC less the base, wrapping.
    pub(crate) tsc_offset: u64,
    /// Where it last ran.
    pub(crate) physical_cpu: Option<u32>,
    pub(crate) system_time: PageMsr,
    pub(crate) steal_time: PageMsr,
    pub(crate) due: Due,
    /// What its time page says, in terms of the base.
    pub(crate) line: Option<TimeUpdate>,
    /// Time stolen in all, as last measured, and as its page has it.
    pub(crate) stolen: Nanos,
    pub(crate) stolen_told: Nanos,
}

impl Vcpu {
    pub(crate) fn new(tsc_offset: u64) -> Self {
        Self {
            tsc_offset,
            physical_cpu: None,
            system_time: PageMsr::default(),
            steal_time: PageMsr::default(),
            due: Due::default(),
            line: None,
            stolen: Nanos(0),
            stolen_told: Nanos(0),
        }
    }

    /// Its time page is to be written, if it has one.
    #[inline]
    pub(crate) fn time_is_due(&mut self) {
        self.due.time = self.system_time.page().is_some();
    }

    /// GUEST_STOPPED is to be raised, if it has a page for it.
    pub(crate) fn stop_is_due(&mut self) {
        self.due.stopped = self.system_time.page().is_some();
        self.time_is_due();
    }

    /// Switches its pages off.
    pub(crate) fn reset(&mut self) {
        self.system_time = PageMsr::default();
        self.steal_time = PageMsr::default();
        self.due = Due::default();
        self.line = None;
    }

    /// Writes its time page: `line` in terms of the base.
    #[inline]
    pub(crate) fn write_time(&mut self, line: TimeUpdate, memory: &impl GuestMemory) {
        let stopped = self.due.stopped;
        (self.due.time, self.due.stopped) = (false, false);
        let Some(address) = self.system_time.page() else { return };
        let tsc_timestamp = line.tsc_timestamp.wrapping_add(self.tsc_offset);
        let update = TimeUpdate { tsc_timestamp, ..line };
        let written = if address.0.is_multiple_of(8) {
            put::<Aligned, _>(address, &update, stopped, memory)
        } else {
            put::<Split, _>(address, &update, stopped, memory)
        };
        // The address was good when it was given. Memory that the VMM has
        // taken away since is not written, and the page tells nothing.
        self.line = written.is_ok().then_some(line);
    }

    /// Adds to its steal time page what was stolen since the last time: the
    /// sum goes on from what the page holds, so that it survives a migration.
    pub(crate) fn write_steal(&mut self, memory: &impl GuestMemory) {
        self.due.steal = false;
        let Some(address) = self.steal_time.page() else { return };
        let Ok(page) = memory.page::<StealPage>(address) else { return };
        // A page caught or left in mid-update holds no sum.
        let held = StealReader::new(page).with_tries(1).read().map_or(0, |info| info.steal.0);
        let more = self.stolen.0.saturating_sub(self.stolen_told.0);
        self.stolen_told = self.stolen;
        // A flush of the TLB cannot have been asked for: CPUID does not offer it.
        StealWriter::new(page).write(Nanos(held.wrapping_add(more)));
    }

    /// Says that it was taken off its physical CPU.
    pub(crate) fn write_preempted(&mut self, memory: &impl GuestMemory) {
        let Some(address) = self.steal_time.page() else { return };
        if let Ok(page) = memory.page::<StealPage>(address) {
            StealWriter::new(page).set_preempted();
            // The flag is taken back before it runs again.
            self.due.steal = true;
        }
    }
}

#[inline]
fn put<M: Memory, G: GuestMemory>(
    address: GuestAddress,
    update: &TimeUpdate,
    stopped: bool,
    memory: &G,
) -> Result<(), Misplaced>
where
    TimePage<M>: pvclock::shared::Page + 'static,
{
    let mut writer = TimeWriter::new(memory.page::<TimePage<M>>(address)?);
    if stopped {
        writer.write_stopped(update);
    } else {
        writer.write(update);
    }
    Ok(())
}

/// That a guest's time page lies in its memory.
pub(crate) fn check_time_page(
    address: GuestAddress,
    memory: &impl GuestMemory,
) -> Result<(), Misplaced> {
    if address.0.is_multiple_of(8) {
        memory.page::<TimePage<Aligned>>(address).map(|_| ())
    } else {
        memory.page::<TimePage<Split>>(address).map(|_| ())
    }
}
