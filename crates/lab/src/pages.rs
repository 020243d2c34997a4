//! The guest's clock pages, as its host sees them.

use guest::layout::Pages;
use guest::request::Request;
use host::{GuestAddress, GuestMemory};
use pvclock::kvm_clock::{TimeInfo, TimePage, TimeReader};
use pvclock::shared::{Page, Split};
use vmm::Machine;

use crate::settings::LabError;

/// A port where nothing is: POST codes go there, and every access exits.
const POST_PORT: u16 = 0x80;

/// What a vCPU's time page says.
pub(crate) fn time_info(machine: &Machine, vcpu: usize) -> Result<TimeInfo, LabError> {
    let page: &TimePage<Split> = page(machine, Pages::time_address(vcpu));
    TimeReader::new(page).info().map_err(|error| LabError::Page { vcpu, error })
}

/// A page at one of the addresses that the guest registers.
pub(crate) fn page<P: Page + 'static>(machine: &Machine, address: u64) -> &P {
    let page = machine.ram().page(GuestAddress(address));
    page.expect("no machine has less memory than the guest's layout needs")
}

/// Has a vCPU leave the guest and enter it again: what waits for the next
/// entry is done then.
pub(crate) fn reenter(machine: &Machine, vcpu: usize) -> Result<(), LabError> {
    machine.ask(vcpu, Request::PortWrite { port: POST_PORT, value: 0 })?;
    Ok(())
}

/// [`reenter`] on all of them.
pub(crate) fn reenter_all(machine: &Machine) -> Result<(), LabError> {
    (0..machine.vcpus()).try_for_each(|vcpu| reenter(machine, vcpu))
}

/// The new page's time less the old one's, at the new one's TSC, ns.
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
    fn a_step_is_what_the_line_does_not_explain() {
        assert_eq!(step_ns(&info(1_000, 50), &info(3_000, 1_050)), 0);
        assert_eq!(step_ns(&info(1_000, 50), &info(3_000, 1_057)), 7);
        assert_eq!(step_ns(&info(1_000, 50), &info(3_000, 1_000)), -50);
        // A TSC that was set back.
        assert_eq!(step_ns(&info(3_000, 5_000), &info(1_000, 5_000)), 1_000);
    }
}
