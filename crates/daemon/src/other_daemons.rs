//! Other time daemons: two that discipline one clock fight.

use std::time::{Duration, Instant};

use facts::Fact;
use facts::steering::{TimeKeeper, TimeKeeperKind};
use inspect::live;

use crate::error::DaemonError;
use crate::settings::Settings;

/// How old what is known of them may be, where the clock is to be corrected,
/// and otherwise.
pub(crate) const FOR_A_CORRECTION: Duration = Duration::from_secs(1);
pub(crate) const IN_CALM: Duration = Duration::from_secs(60);

/// Which others run, and which of them disciplines the clock.
#[derive(Debug)]
pub(crate) struct OtherDaemons {
    /// These are not minded.
    allowed: Vec<TimeKeeperKind>,
    is_forced: bool,
    /// Those that ran at the start and may set the clock.
    pub(crate) running: Vec<TimeKeeperKind>,
    disciplining: Option<TimeKeeperKind>,
    checked: Instant,
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
        };
        let found = match live::time_keepers() {
            Fact::Known(found) => found,
            Fact::Unknown(_) if settings.force => return Ok(others),
            Fact::Unknown(why) => return Err(DaemonError::OtherDaemonsUnknown(why)),
        };
        others.disciplining = others.disciplining_in(&found);
        let running = found.iter().filter(|daemon| daemon.running);
        others.running = running.map(|daemon| daemon.kind).collect();
        Ok(others)
    }

    /// Whether one disciplined the clock when that was last found out.
    pub(crate) fn is_beside(&self) -> bool {
        self.disciplining.is_some()
    }

    /// The one that disciplines the clock, as found at most this long ago:
    /// reading the names of all processes takes milliseconds.
    pub(crate) fn disciplining(&mut self, found_within: Duration) -> Option<TimeKeeperKind> {
        // Where processes cannot be read, the start was forced.
        if self.checked.elapsed() >= found_within
            && let Some(found) = live::time_keepers().known()
        {
            (self.checked, self.disciplining) = (Instant::now(), self.disciplining_in(found));
        }
        self.disciplining
    }

    fn disciplining_in(&self, found: &[TimeKeeper]) -> Option<TimeKeeperKind> {
        let running = found.iter().filter(|daemon| daemon.running).map(|daemon| daemon.kind);
        running
            .filter(|kind| disciplines(*kind) && !self.is_forced)
            .find(|kind| !self.allowed.contains(kind))
    }
}

/// Whether it corrects the clock continuously. Guest tools set it at the host's
/// request, to the time that we would set; of two keepers the second finds the
/// first's file locked.
fn disciplines(kind: TimeKeeperKind) -> bool {
    match kind {
        TimeKeeperKind::Chrony
        | TimeKeeperKind::Ntpd
        | TimeKeeperKind::SystemdTimesyncd
        | TimeKeeperKind::NtpdRs
        | TimeKeeperKind::Openntpd
        | TimeKeeperKind::LinuxPtp
        | TimeKeeperKind::VirtualBoxService => true,
        TimeKeeperKind::VmwareTools
        | TimeKeeperKind::QemuGuestAgent
        | TimeKeeperKind::HypervUtils
        | TimeKeeperKind::ParachronKeep => false,
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
        let allowed = allowed.to_vec();
        let (running_at_start, disciplining, checked) = (Vec::new(), None, Instant::now());
        let others =
            OtherDaemons { allowed, is_forced, running: running_at_start, disciplining, checked };
        let found = TimeKeeperKind::ALL.iter().map(|kind| TimeKeeper {
            kind: *kind,
            installed: true,
            running: running.contains(kind),
        });
        others.disciplining_in(&found.collect::<Vec<_>>())
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
}
