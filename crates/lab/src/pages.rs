//! The guest's clock pages, as its host sees them.

use guest::layout::GuestPages;
use guest::request::GuestRequest;
use host::pages::TimePage;
use host::{ClockAddress, ClockMemory};
use pvclock::kvm_clock::{TimeInfo, TimeReader};
use pvclock::shared::Page;
use vmm::{GuestRam, Machine};

use crate::settings::LabError;

/// A request that makes a vCPU exit: no device is at this port, to which POST
/// codes go.
pub(crate) const EXIT: GuestRequest = GuestRequest::PortWrite { port: 0x80, value: 0 };

/// The content of a vCPU's time page.
pub(crate) fn time_info(ram: &GuestRam, vcpu: usize) -> Result<TimeInfo, LabError> {
    let page: &TimePage = page(ram, GuestPages::time_address(vcpu));
    TimeReader::new(page).info().map_err(|error| LabError::Page { vcpu, error })
}

/// A page at one of the addresses of the guest's layout.
pub(crate) fn page<P: Page + 'static>(ram: &GuestRam, address: u64) -> &P {
    ram.page(ClockAddress(address)).expect("memory is at least as large as the guest's layout")
}

/// Has a vCPU exit and enter the guest again: pending page updates are written
/// at the entry.
pub(crate) fn reenter(machine: &Machine, vcpu: usize) -> Result<(), LabError> {
    machine.request(vcpu, EXIT)?;
    Ok(())
}

/// [`reenter`] on all vCPUs.
pub(crate) fn reenter_all(machine: &Machine) -> Result<(), LabError> {
    (0..machine.vcpus()).try_for_each(|vcpu| reenter(machine, vcpu))
}

/// The new page's time minus the old page's, at the new page's TSC, ns.
pub(crate) fn step_ns(old: &TimeInfo, new: &TimeInfo) -> i64 {
    let since = new.tsc_timestamp.wrapping_sub(old.tsc_timestamp).cast_signed();
    let nanos = old.scale.nanos(since.unsigned_abs()).map_or(u64::MAX, |nanos| nanos.0);
    let by_old = if since >= 0 {
        old.system_time.0.wrapping_add(nanos)
    } else {
        old.system_time.0.wrapping_sub(nanos)
    };
    new.system_time.0.wrapping_sub(by_old).cast_signed()
}

#[cfg(test)]
mod tests {
    use pvclock::{Hertz, Nanos, Scale};

    use super::*;

    fn info(tsc_timestamp: u64, system_time: u64) -> TimeInfo {
        let scale = Scale::from_hertz(Hertz(2_000_000_000)).expect("a usual rate");
        let system_time = Nanos(system_time);
        TimeInfo { tsc_timestamp, system_time, scale, ..TimeInfo::default() }
    }

    #[test]
    fn a_step_is_the_time_beyond_the_old_page_s() {
        assert_eq!(step_ns(&info(1_000, 50), &info(3_000, 1_050)), 0);
        assert_eq!(step_ns(&info(1_000, 50), &info(3_000, 1_057)), 7);
        assert_eq!(step_ns(&info(1_000, 50), &info(3_000, 1_000)), -50);
        // The TSC was set back.
        assert_eq!(step_ns(&info(3_000, 5_000), &info(1_000, 5_000)), 1_000);
    }
}
