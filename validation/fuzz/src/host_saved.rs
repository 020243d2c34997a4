//! Arbitrary text as a saved clock of `host`, restored if they decode.

use host::{
    ClockSettings, GuestClock, HostClocks, PlainMemory, RestorePolicy, SavedGuestClock, TscMode,
    VcpuId,
};
use pvclock::units::UnixTime;
use pvclock::{Hertz, Nanos, Ticks};

/// A decoded clock survives being written; any host continues it or refuses.
pub(crate) fn host_saved(data: &[u8]) {
    let saved = match serde_json::from_slice::<SavedGuestClock>(data) {
        Ok(saved) => saved,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    assert_eq!(reread(&saved), saved);
    let memory = PlainMemory::new(2);
    let now =
        HostClocks::new(Ticks(1 << 40), Nanos(1 << 40), UnixTime(Nanos(1_795_273_445_000_000_000)));
    for choice in 0..64_u32 {
        let is = |bit: u32| choice >> bit & 1 == 1;
        let policy = RestorePolicy::ALL[(choice & 1 | choice >> 4 & 2) as usize];
        let host_tsc = Hertz(if is(4) { 2_600_000_000 } else { 1_000_000_000 });
        let settings = ClockSettings::new(saved.kind(), host_tsc).changed(|new| {
            new.tsc_mode = if is(1) { TscMode::Emulated } else { TscMode::Real };
            new.tsc_scaling = is(2).then_some(48);
            new.tsc_trapping = is(3);
        });
        let (mut host, restored) = match GuestClock::restore(&saved, settings, policy, now) {
            Ok(restored) => restored,
            Err(error) => {
                assert!(!error.to_string().is_empty());
                continue;
            }
        };
        assert!(!restored.to_string().is_empty());
        let vcpus: Vec<VcpuId> = restored.vcpus.iter().map(|vcpu| vcpu.vcpu).collect();
        for (vcpu, place) in vcpus.into_iter().zip(&restored.vcpus) {
            assert_eq!(host.guest_tsc(vcpu, now), Some(place.tsc), "{restored:?}");
            host.before_entry(vcpu, now, &memory);
        }
        assert_eq!(host.due().next(), None, "{restored:?}");
        reread(&host.save(now));
    }
}

/// What another process reads of it.
pub(crate) fn reread(saved: &SavedGuestClock) -> SavedGuestClock {
    let text = serde_json::to_string(saved).expect("it has names for keys");
    serde_json::from_str(&text).expect("what was saved is read")
}
