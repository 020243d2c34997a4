//! Saving and restoring.

use alloc::vec::Vec;

use pvclock::Nanos;

use super::GuestClock;
use crate::saved::{self, SavedContents, SavedVcpu};
use crate::vcpu::Vcpu;
use crate::{
    ClockSettings, HostClocks, HostLogEvent, RestoreError, RestorePolicy, RestoredTransfer,
    SavedGuestClock,
};

impl GuestClock {
    /// The clock now. No vCPU may run. Due updates are not part of it: a
    /// restored clock writes all pages again.
    pub fn save(&mut self, now: HostClocks) -> SavedGuestClock {
        self.latest = now;
        let times: Vec<_> = self.vcpus.keys().map(|&vcpu| self.time(vcpu, now)).collect();
        let clock = times.iter().copied().max().unwrap_or_else(|| self.clock(now));
        let least = times.iter().copied().min().unwrap_or(clock);
        let vcpus = self.vcpus.iter().map(|(&id, vcpu)| SavedVcpu {
            id,
            tsc: vcpu.tsc(now),
            rate: vcpu.source.rate(),
            system_time: vcpu.system_time,
            steal_time: vcpu.steal_time,
        });
        let mut hyperv = self.hyperv;
        hyperv.forget_snapshot();
        SavedGuestClock(SavedContents {
            version: saved::VERSION,
            kind: self.settings.kind,
            advertised_tsc: self.settings.advertised_tsc,
            tsc_rate: self.source.rate(),
            taken: now,
            real_error_ns: self.settings.real_time_error.map(|error| error.0),
            clock,
            spread: Nanos(clock.0 - least.0),
            wall_clock: self.wall_clock,
            boot_vcpu_uses_old_msr: self.boot_vcpu_uses_old_msr,
            hyperv,
            vcpus: vcpus.collect(),
        })
    }

    /// Continues a saved VM's clock, and returns what its VMM has to do before
    /// it runs a vCPU. Each page is written, with GUEST_STOPPED raised, at its
    /// vCPU's first entry: neither [`HostEvent::Resumed`](crate::HostEvent::Resumed)
    /// nor [`HostEvent::VcpuCreated`](crate::HostEvent::VcpuCreated) of a saved vCPU is
    /// needed.
    ///
    /// # Errors
    /// [`RestoreError`].
    pub fn restore(
        saved: &SavedGuestClock,
        settings: ClockSettings,
        policy: RestorePolicy,
        now: HostClocks,
    ) -> Result<(Self, RestoredTransfer), RestoreError> {
        let restored = RestoredTransfer::plan(saved, &settings, policy, now)?;
        let saved = &saved.0;
        let mut host =
            Self::new(ClockSettings { advertised_tsc: restored.advertised_tsc, ..settings }, now)?;
        host.source = restored.source;
        host.clock_offset = restored.clock.0.wrapping_sub(now.boot.0);
        host.wall_clock = saved.wall_clock;
        host.boot_vcpu_uses_old_msr = saved.boot_vcpu_uses_old_msr;
        host.hyperv = saved.hyperv;
        host.hyperv.unacknowledged = restored.unacknowledged;
        let places = restored.vcpus.iter().zip(&restored.sources);
        for (vcpu, (place, &source)) in saved.vcpus.iter().zip(places) {
            let mut live = Vcpu::new(source, place.tsc_offset);
            live.system_time = vcpu.system_time;
            live.steal_time = vcpu.steal_time;
            // The saved page may state that the vCPU was off its physical CPU.
            live.due.steal = live.steal_time.page().is_some();
            live.due.reference = true;
            live.stop_is_due();
            host.vcpus.insert(vcpu.id, live);
        }
        host.update_master(now);
        host.raise_flags();
        let RestoredTransfer { clock, away, .. } = restored;
        host.log.push(now.boot, HostLogEvent::Restored { clock, away });
        Ok((host, restored))
    }
}
