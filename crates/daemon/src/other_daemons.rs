//! Other time daemons: two that discipline one clock fight.

use std::time::{Duration, Instant};

use facts::Fact;
use facts::steering::{TimeKeeper, TimeKeeperKind};
use inspect::live;
use inspect::sampler::affordable_period;

use crate::error::DaemonError;
use crate::settings::Settings;

/// How old what is known of them may be, where the clock is to be corrected; and otherwise,
/// at the least and at the most.
pub(crate) const FOR_A_CORRECTION: Duration = Duration::from_secs(1);
const IN_CALM: [Duration; 2] = [Duration::from_secs(60), Duration::from_secs(300)];

/// Which others run, and which of them disciplines the clock.
#[derive(Debug)]
pub(crate) struct OtherDaemons {
    /// These are not minded.
    allowed: Vec<TimeKeeperKind>,
    is_forced: bool,
    /// Those that ran at the start and may set the clock.
    pub(crate) running: Vec<TimeKeeper>,
    disciplining: Option<TimeKeeper>,
    checked: Instant,
    /// What the last look took, and the one before: one may be interrupted.
    took: [Duration; 2],
}

impl OtherDaemons {
    /// Finds the others that run.
    ///
    /// # Errors
    /// The processes cannot be read.
    pub(crate) fn new(settings: &Settings) -> Result<Self, DaemonError> {
        let mut others = Self {
            allowed: settings.allowed.clone(),
            is_forced: settings.force,
            running: Vec::new(),
            disciplining: None,
            checked: Instant::now(),
            took: [Duration::ZERO; 2],
        };
        let looked = live::time_keepers();
        others.took = [others.checked.elapsed(); 2];
        let found = match looked {
            Fact::Known(found) => found,
            Fact::Unknown(_) if settings.force => return Ok(others),
            Fact::Unknown(why) => return Err(DaemonError::OtherDaemonsUnknown(why)),
        };
        others.disciplining = others.disciplining_in(&found);
        others.running = found.into_iter().filter(|daemon| daemon.running).collect();
        Ok(others)
    }

    /// The one that disciplined the clock when that was last found out.
    pub(crate) fn current(&self) -> Option<&TimeKeeper> {
        self.disciplining.as_ref()
    }

    /// The one that disciplines the clock, as found at most this long ago:
    /// reading the names of all processes takes milliseconds.
    pub(crate) fn disciplining(&mut self, found_within: Duration) -> Option<&TimeKeeper> {
        if self.checked.elapsed() >= found_within {
            let begun = Instant::now();
            self.note(&live::time_keepers(), live::unit_has_ended);
            self.took = [begun.elapsed(), self.took[0]];
        }
        self.current()
    }

    /// How old it may be where nothing is corrected: the name of each process is read, and a
    /// large machine has thousands.
    pub(crate) fn in_calm(&self) -> Duration {
        let [last, before] = self.took;
        affordable_period(last.min(before), IN_CALM)
    }

    fn note(&mut self, found: &Fact<Vec<TimeKeeper>>, has_ended: impl Fn(&str) -> bool) {
        self.checked = Instant::now();
        match found {
            Fact::Known(found) => self.disciplining = self.disciplining_in(found),
            // The start was forced; or other users' processes are hidden, and one that is
            // seen by its unit alone is seen no more once that has ended.
            Fact::Unknown(_) => {
                let is_over = |unit: &String| has_ended(unit);
                self.disciplining.take_if(|daemon| {
                    daemon.by_unit_alone && daemon.unit.as_ref().is_some_and(is_over)
                });
            }
        }
    }

    fn disciplining_in(&self, found: &[TimeKeeper]) -> Option<TimeKeeper> {
        let mut running = found.iter().filter(|daemon| daemon.running && !self.is_forced);
        let is_minded = |kind: TimeKeeperKind| kind.disciplines() && !self.allowed.contains(&kind);
        running.find(|daemon| is_minded(daemon.kind)).cloned()
    }
}

#[cfg(test)]
impl OtherDaemons {
    /// Where chronyd disciplines the clock, seen by its unit alone or not.
    pub(crate) fn chronyd(by_unit_alone: bool) -> Self {
        let (kind, unit) = (TimeKeeperKind::Chrony, Some("chrony.service".to_owned()));
        let chronyd = TimeKeeper {
            kind,
            installed: true,
            running: true,
            unit,
            by_unit_alone,
            leaves_clock: false,
        };
        Self {
            allowed: Vec::new(),
            is_forced: false,
            running: Vec::new(),
            disciplining: Some(chronyd),
            checked: Instant::now(),
            took: [Duration::ZERO; 2],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disciplining(
        allowed: &[TimeKeeperKind],
        is_forced: bool,
        running: &[TimeKeeperKind],
    ) -> Option<TimeKeeperKind> {
        let found = TimeKeeperKind::ALL.iter().map(|kind| TimeKeeper {
            running: running.contains(kind),
            ..TimeKeeper::installed(*kind)
        });
        let others =
            OtherDaemons { allowed: allowed.to_vec(), is_forced, ..OtherDaemons::chronyd(false) };
        others.disciplining_in(&found.collect::<Vec<_>>()).map(|daemon| daemon.kind)
    }

    #[test]
    fn a_daemon_that_disciplines_the_clock_is_minded_unless_allowed() {
        use TimeKeeperKind::{Chrony, Ntpd, QemuGuestAgent};
        assert_eq!(disciplining(&[], false, &[]), None);
        assert_eq!(disciplining(&[], false, &[QemuGuestAgent, Chrony]), Some(Chrony));
        assert_eq!(disciplining(&[Chrony], false, &[Chrony]), None);
        assert_eq!(disciplining(&[Chrony], false, &[Chrony, Ntpd]), Some(Ntpd));
        assert_eq!(disciplining(&[], true, TimeKeeperKind::ALL), None);
    }

    #[test]
    fn a_machine_of_many_processes_is_looked_at_less_often() {
        let of = |took_us: [u64; 2]| {
            let took = took_us.map(Duration::from_micros);
            OtherDaemons { took, ..OtherDaemons::chronyd(false) }.in_calm().as_secs()
        };
        assert_eq!([of([0; 2]), of([1000; 2]), of([3750; 2])], [60; 3]);
        // The kernel's own of 64 CPUs; and three thousand processes.
        assert_eq!([of([10_000; 2]), of([20_000; 2])], [160, 300]);
        assert_eq!(of([400_000, 2000]), 60, "it was interrupted");
    }

    /// What is found where processes are hidden (`hidepid`), and the unit that was seen ends.
    #[test]
    fn one_that_is_seen_by_its_unit_alone_goes_with_it() {
        let hidden = Fact::Unknown(facts::Unknown::NeedsRoot { what: "processes".into() });
        for (by_unit_alone, has_ended, stays) in
            [(true, false, true), (true, true, false), (false, true, true)]
        {
            let mut others = OtherDaemons::chronyd(by_unit_alone);
            let checked = others.checked;
            std::thread::sleep(Duration::from_millis(1));
            others.note(&hidden, |unit| has_ended && unit == "chrony.service");
            assert_eq!(others.current().is_some(), stays, "{by_unit_alone} {has_ended}");
            // Not read again at each sample.
            assert!(others.checked > checked);
        }
    }
}
