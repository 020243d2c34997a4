//! A provider of kvm-clock by numbers: the guest registers its page, reads it, and is moved to
//! another host.

use pvclock::kvm_clock::{LastTime, TimeReader};
use pvclock_host::pages::TimePage;
use pvclock_host::{
    ClockMemory as _, ClockProvider, ClockSettings, GuestClock, Hertz, HostClocks, HostEvent,
    Nanos, PlainMemory, RestorePolicy, Ticks, UnixTime, VcpuId, msr,
};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // A host whose TSC runs at 1 GHz: its clocks are all at `ns`.
    let at = |ns| HostClocks::new(Ticks(ns), Nanos(ns), UnixTime(Nanos(ns)));
    let (memory, vcpu, page) = (PlainMemory::new(1), VcpuId(0), PlainMemory::time(0));
    let settings = ClockSettings::new(ClockProvider::Kvm, Hertz(1_000_000_000));
    let mut clock = GuestClock::new(settings, at(0))?;
    clock.handle(HostEvent::VcpuCreated { vcpu, tsc_offset: 0 }, at(0), &memory);
    clock.write_msr(vcpu, msr::KVM_SYSTEM_TIME, page.0 | 1, at(1_000), &memory)?;
    clock.before_entry(vcpu, at(2_000), &memory);
    let (reader, last) = (TimeReader::new(memory.page::<TimePage>(page)?), LastTime::default());
    println!("the guest reads {}", reader.nanos_monotonic(&|| 3_000, &last)?);

    // Moved within 1 s, of which the guest sees nothing.
    let (saved, policy) = (clock.save(at(5_000)), RestorePolicy::Freeze);
    let (mut clock, plan) = GuestClock::restore(&saved, settings, policy, at(1_000_005_000))?;
    println!("set vCPU 0's TSC offset to {}", plan.vcpus[0].tsc_offset.cast_signed());
    clock.before_entry(vcpu, at(1_000_006_000), &memory);
    println!("and then {}", reader.nanos_monotonic(&|| 6_000, &last)?);
    Ok(())
}
