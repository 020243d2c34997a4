//! Other time daemons: two that correct one clock fight.

use std::time::{Duration, Instant};

use facts::Fact;
use facts::steering::{TimeKeeper, TimeKeeperKind};
use inspect::live;

use crate::error::DaemonError;
use crate::settings::Settings;

/// Which others run, and which of them may.
#[derive(Debug)]
pub(crate) struct OtherDaemons {
    allowed: Vec<TimeKeeperKind>,
    is_forced: bool,
    /// Those that ran at the start and may set the clock.
    pub(crate) running: Vec<TimeKeeperKind>,
    checked: Option<(Instant, Option<TimeKeeperKind>)>,
}

/// Reading the names of all processes takes milliseconds: not for each slew.
const CHECK_INTERVAL: Duration = Duration::from_secs(10);

impl OtherDaemons {
    /// Finds the others that run.
    ///
    /// # Errors
    /// One that is not allowed runs, or the processes cannot be read.
    pub(crate) fn new(settings: &Settings) -> Result<Self, DaemonError> {
        let mut allowed = settings.allowed.clone();
        if settings.chronyd.makestep.is_some() || settings.chronyd.feed.is_some() {
            allowed.push(TimeKeeperKind::Chrony);
        }
        let mut others =
            Self { allowed, is_forced: settings.force, running: Vec::new(), checked: None };
        let found = match live::time_keepers() {
            Fact::Known(found) => found,
            Fact::Unknown(_) if settings.force => return Ok(others),
            Fact::Unknown(why) => return Err(DaemonError::OtherDaemonsUnknown(why)),
        };
        if let Some(kind) = others.conflict_in(&found) {
            return Err(DaemonError::OtherDaemon(kind));
        }
        let running = found.iter().filter(|daemon| daemon.running);
        others.running = running.map(|daemon| daemon.kind).collect();
        Ok(others)
    }

    /// One that was started since, and is not allowed.
    pub(crate) fn conflicting(&mut self) -> Option<TimeKeeperKind> {
        if let Some((at, found)) = self.checked
            && at.elapsed() < CHECK_INTERVAL
        {
            return found;
        }
        // Where processes cannot be read, the start was forced.
        let found = live::time_keepers().known().and_then(|found| self.conflict_in(found));
        self.checked = Some((Instant::now(), found));
        found
    }

    fn conflict_in(&self, found: &[TimeKeeper]) -> Option<TimeKeeperKind> {
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

    fn conflict(
        allowed: &[TimeKeeperKind],
        is_forced: bool,
        running: &[TimeKeeperKind],
    ) -> Option<TimeKeeperKind> {
        let allowed = allowed.to_vec();
        let others = OtherDaemons { allowed, is_forced, running: Vec::new(), checked: None };
        let found = TimeKeeperKind::ALL.map(|kind| TimeKeeper {
            kind,
            installed: true,
            running: running.contains(&kind),
        });
        others.conflict_in(&found)
    }

    #[test]
    fn a_daemon_that_disciplines_the_clock_conflicts_unless_allowed() {
        use TimeKeeperKind::{Chrony, Ntpd, QemuGuestAgent};
        assert_eq!(conflict(&[], false, &[]), None);
        assert_eq!(conflict(&[], false, &[QemuGuestAgent, Chrony]), Some(Chrony));
        assert_eq!(conflict(&[Chrony], false, &[Chrony]), None);
        assert_eq!(conflict(&[Chrony], false, &[Chrony, Ntpd]), Some(Ntpd));
        assert_eq!(conflict(&[], true, &TimeKeeperKind::ALL), None);
    }
}
