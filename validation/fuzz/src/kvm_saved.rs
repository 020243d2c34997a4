//! Arbitrary text as a clock of KVM that `kvm` saved, planned for if it decodes.

use host::{ClockPlan, HostClocks, RestorePolicy, VcpuId};
use kvm::host_clock::HostReading;
use kvm::{Error, HostCapabilities, HostTsc, KvmClockState, KvmVm};
use kvm_bindings::kvm_clock_data;
use pvclock::units::UnixTime;
use pvclock::{Hertz, Nanos, Ticks};

/// A virtual machine that is only asked for its host's clocks: a check sets nothing.
struct Unset(HostClocks);

impl KvmVm for Unset {
    fn get_clock(&self) -> Result<kvm_clock_data, Error> {
        unreachable!("a check reads no guest's clock")
    }

    fn set_clock(&self, _: &kvm_clock_data) -> Result<(), Error> {
        unreachable!("a check sets nothing")
    }

    fn host_clocks(&self) -> HostReading {
        HostReading { clocks: self.0, width: 0 }
    }
}

/// A decoded clock survives being written; any host continues it or refuses.
pub(crate) fn kvm_saved(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let saved = match serde_json::from_str::<KvmClockState>(text) {
        Ok(saved) => saved,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    let written = serde_json::to_string(&saved).expect("numbers can be written");
    assert_eq!(
        serde_json::from_str::<KvmClockState>(&written).expect("it was just written"),
        saved
    );
    let real = UnixTime(Nanos(1_795_273_445_000_000_000));
    let now = HostClocks::new(Ticks(1 << 40), Nanos(1 << 40), real);
    let frequency = Hertz(2_600_000_000);
    for tsc in [HostTsc::unscaled(frequency), HostTsc::scaled(frequency, 48)] {
        for policy in RestorePolicy::ALL {
            let host = HostCapabilities::new(tsc);
            let is_refused = saved.check(&Unset(now), saved.tscs.len(), &host, policy).is_err();
            let plan = ClockPlan::new(saved.clock.clock, saved.clock.taken, policy, now);
            let (false, Ok(plan)) = (is_refused, plan) else { continue };
            for (id, vcpu) in (0..).map(VcpuId).zip(&saved.tscs) {
                let rate = tsc.plan(vcpu.frequency).expect("it was checked");
                let base = rate.base(now.tsc);
                if let Ok(place) = plan.tsc(id, vcpu.tsc, vcpu.frequency, base) {
                    assert_eq!(base.wrapping_add(place.tsc_offset), place.tsc);
                }
            }
        }
    }
}
