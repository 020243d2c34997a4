//! What this machine reports now, through files and calls that stay open.

use std::path::Path;

use facts::Fact;
use facts::clocksource;
use facts::steering::{Adjtimex, TimeKeeper, parse_adjtimex, parse_keepers};
use linux::reread::Reread;
use pvclock::kvm_clock::TimeInfo;

use crate::probes;
use crate::tree::Files;
use linux::pvclock_page::{Copier, address};

/// The kvm-clock page that the kernel maps into this process.
#[derive(Debug)]
pub struct LivePage {
    address: usize,
    copier: Copier,
}

impl LivePage {
    /// Its address, even if the kernel has not filled it in: it does so once
    /// kvm-clock is the clock source.
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

/// The kernel's clock discipline.
pub fn adjtimex() -> Fact<Adjtimex> {
    probes::adjtimex_state().and_then(|text| parse_adjtimex(&text))
}

/// The clock source in use.
#[derive(Debug)]
pub struct CurrentClocksource(Reread);

impl CurrentClocksource {
    /// Opens the kernel's file.
    pub fn open() -> Fact<Self> {
        let file = Reread::open(Path::new(clocksource::CURRENT));
        crate::fact_of(clocksource::CURRENT, file).map(Self)
    }

    /// The name of the source in use now.
    pub fn name(&self) -> Fact<String> {
        let mut bytes = [0; 64];
        let length = crate::fact_of(clocksource::CURRENT, self.0.read(&mut bytes));
        length.and_then(|length| {
            clocksource::parse_current(&String::from_utf8_lossy(&bytes[..length]))
        })
    }
}

/// The time daemons that run now.
pub fn time_keepers() -> Fact<Vec<TimeKeeper>> {
    probes::time_keepers::find(&Files::live()).and_then(|text| parse_keepers(&text))
}

/// Whether a unit of the system's slice, one of [`time_keepers`], has no process any more.
pub fn unit_has_ended(unit: &str) -> bool {
    probes::time_keepers::has_ended(&Files::live(), unit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clocksource_switch::Switchboard;
    use facts::Unknown;

    #[test]
    fn the_page_is_consistent_or_its_absence_explained() {
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
    fn the_source_can_be_read_repeatedly() {
        let source = CurrentClocksource::open();
        for _ in 0..2 {
            let name = source.value().map(CurrentClocksource::name);
            let named = name.as_ref().and_then(Fact::value).cloned();
            assert_eq!(named, Switchboard::live().current().ok());
        }
    }

    #[test]
    fn adjtimex_needs_no_root() {
        let state = adjtimex();
        assert!(state.is_known_and(|state| (9000..=11_000).contains(&state.tick_us)), "{state:?}");
    }
}
