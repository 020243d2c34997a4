//! What a watcher looks at again and again, cheaply.

mod clock_set;
mod generations;
mod log;
mod scheduling;

use pvclock::kvm_clock::TimeInfo;

use crate::clocksource_switch::{SwitchError, Switchboard};
use crate::fact::{Fact, Unknown};
use crate::facts::steering::{Adjtimex, TimeKeeper, parse_adjtimex, parse_keepers};
use crate::probes;
use crate::tree::Files;

pub use clock_set::ClockSet;
pub use generations::Generations;
pub use log::{GrowingLog, KERNEL_LOG, parse_growing_log};
pub use scheduling::Scheduling;

/// The kvm-clock page that the kernel maps into this process.
#[derive(Debug, Clone, Copy)]
pub struct LivePage {
    address: usize,
}

impl LivePage {
    /// Where it is, or would be: the kernel fills it in once kvm-clock has
    /// been the clock source.
    pub fn find() -> Fact<Self> {
        probes::pvclock_page::address().map(|address| Self { address })
    }

    /// What it holds now.
    pub fn read(self) -> Fact<TimeInfo> {
        probes::pvclock_page::read(self.address).map(|bytes| TimeInfo::from_bytes(&bytes))
    }
}

/// The kernel's clock discipline as it stands now.
pub fn adjtimex() -> Fact<Adjtimex> {
    probes::adjtimex::state().and_then(|text| parse_adjtimex(&text))
}

/// The clock source in use now.
pub fn clocksource() -> Fact<String> {
    match Switchboard::live().current() {
        Ok(name) => Fact::Known(name),
        Err(SwitchError::Unknown(why)) => Fact::Unknown(why),
        Err(other) => Fact::Unknown(Unknown::Unreadable {
            what: "the clock source".to_owned(),
            error: other.to_string(),
        }),
    }
}

/// The programs that keep time, as they run now.
pub fn time_keepers() -> Fact<Vec<TimeKeeper>> {
    probes::time_keepers::find(&Files::live()).and_then(|text| parse_keepers(&text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_whole_or_its_absence_explained() {
        match LivePage::find().and_then(LivePage::read) {
            Fact::Known(info) => assert_eq!(info.version % 2, 0, "{info:?}"),
            Fact::Unknown(why) => {
                assert!(
                    matches!(why, Unknown::NotApplicable { .. } | Unknown::NotThere { .. }),
                    "{why}"
                );
                crate::cpus::skipped(&why.to_string());
            }
        }
    }

    #[test]
    fn adjtimex_answers_anyone() {
        let state = adjtimex();
        assert!(state.is_known_and(|state| (9000..=11_000).contains(&state.tick_us)), "{state:?}");
    }
}
