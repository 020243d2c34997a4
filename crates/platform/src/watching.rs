//! What a watcher looks at again and again, cheaply.

mod clock_set;
mod generations;
mod log;
mod scheduling;

use std::path::Path;

use pvclock::kvm_clock::TimeInfo;

use crate::again::Again;
use crate::probes;
use crate::tree::Files;
use facts::Fact;
use facts::clocksource;
use facts::steering::{Adjtimex, TimeKeeper, parse_adjtimex, parse_keepers};
use linux::pvclock_page::{Copier, address};

pub use clock_set::ClockSet;
pub use generations::Generations;
pub use log::{GrowingLog, KERNEL_LOG, parse_growing_log};
pub use scheduling::Scheduling;

/// The kvm-clock page that the kernel maps into this process.
#[derive(Debug)]
pub struct LivePage {
    address: usize,
    copier: Copier,
}

impl LivePage {
    /// Where it is, or would be: the kernel fills it in once kvm-clock has
    /// been the clock source.
    pub fn find() -> Fact<Self> {
        let find = || Ok(Self { address: address()?, copier: Copier::new()? });
        probes::pvclock_page::fact(find())
    }

    /// What it holds now.
    pub fn read(&self) -> Fact<TimeInfo> {
        let bytes = probes::pvclock_page::fact(self.copier.read(self.address));
        bytes.map(|bytes| TimeInfo::from_bytes(&bytes))
    }
}

/// The kernel's clock discipline as it stands now.
pub fn adjtimex() -> Fact<Adjtimex> {
    probes::adjtimex::state().and_then(|text| parse_adjtimex(&text))
}

/// The kernel's word on the clock source in use.
#[derive(Debug)]
pub struct CurrentClocksource(Again);

impl CurrentClocksource {
    /// Where the kernel has sources.
    pub fn open() -> Fact<Self> {
        Again::open(Path::new(clocksource::CURRENT)).map(Self)
    }

    /// The one in use now.
    pub fn name(&self) -> Fact<String> {
        let mut bytes = [0; 64];
        let length = self.0.read(&mut bytes);
        length.and_then(|length| {
            clocksource::parse_current(&String::from_utf8_lossy(&bytes[..length]))
        })
    }
}

/// The programs that keep time, as they run now.
pub fn time_keepers() -> Fact<Vec<TimeKeeper>> {
    probes::time_keepers::find(&Files::live()).and_then(|text| parse_keepers(&text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clocksource_switch::Switchboard;
    use facts::Unknown;

    #[test]
    fn the_page_is_whole_or_its_absence_explained() {
        match LivePage::find().and_then(|page| page.read()) {
            Fact::Known(info) => assert_eq!(info.version % 2, 0, "{info:?}"),
            Fact::Unknown(why) => {
                assert!(
                    matches!(why, Unknown::NotApplicable { .. } | Unknown::NotThere { .. }),
                    "{why}"
                );
                crate::skipped(&why.to_string());
            }
        }
    }

    #[test]
    fn the_source_is_told_again_and_again() {
        let source = CurrentClocksource::open();
        for _ in 0..2 {
            let name = source.known().map(CurrentClocksource::name);
            let named = name.as_ref().and_then(Fact::known).cloned();
            assert_eq!(named, Switchboard::live().current().ok());
        }
    }

    #[test]
    fn adjtimex_answers_anyone() {
        let state = adjtimex();
        assert!(state.is_known_and(|state| (9000..=11_000).contains(&state.tick_us)), "{state:?}");
    }
}
