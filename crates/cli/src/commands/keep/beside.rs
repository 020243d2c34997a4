//! Other clock keepers: two that correct one clock make it worse.

use std::time::{Duration, Instant};

use facts::Fact;
use facts::steering::{TimeKeeper, TimeKeeperKind};
use platform::live;

use super::options::Args;
use crate::error::CliError;

/// Who else keeps the clock, and who of them may.
#[derive(Debug)]
pub(super) struct Beside {
    allowed: Vec<TimeKeeperKind>,
    is_forced: bool,
    /// Those found at the start that set the clock now and then.
    pub(super) noted: Vec<TimeKeeperKind>,
    looked: Option<(Instant, Option<TimeKeeperKind>)>,
}

/// Looking through all processes takes milliseconds: not for each slew.
const LOOK_EACH: Duration = Duration::from_secs(10);

impl Beside {
    /// Looks who else keeps the clock.
    ///
    /// # Errors
    /// Somebody who was not named does, or it cannot be told.
    pub(super) fn new(args: &Args) -> Result<Self, CliError> {
        let mut allowed = args.beside.clone();
        if !args.chrony.is_empty() {
            allowed.push(TimeKeeperKind::Chrony);
        }
        let mut beside = Self { allowed, is_forced: args.force, noted: Vec::new(), looked: None };
        let found = match live::time_keepers() {
            Fact::Known(found) => found,
            Fact::Unknown(_) if args.force => return Ok(beside),
            Fact::Unknown(why) => {
                return Err(CliError::Failed {
                    cause: format!("cannot tell whether another program keeps the clock: {why}"),
                    remedy: "--force if none does, on the host of a container neither".into(),
                });
            }
        };
        if let Some(kind) = beside.in_the_way(&found) {
            return Err(refused(kind));
        }
        let running = found.iter().filter(|keeper| keeper.running);
        beside.noted = running.map(|keeper| keeper.kind).collect();
        Ok(beside)
    }

    /// Whoever has come since, and would fight over the clock.
    pub(super) fn newcomer(&mut self) -> Option<TimeKeeperKind> {
        if let Some((at, found)) = self.looked
            && at.elapsed() < LOOK_EACH
        {
            return found;
        }
        // What could not be told at the start was settled then.
        let found = live::time_keepers().known().and_then(|found| self.in_the_way(found));
        self.looked = Some((Instant::now(), found));
        found
    }

    fn in_the_way(&self, found: &[TimeKeeper]) -> Option<TimeKeeperKind> {
        let running = found.iter().filter(|keeper| keeper.running).map(|keeper| keeper.kind);
        running
            .filter(|kind| keeps_all_the_time(*kind) && !self.is_forced)
            .find(|kind| !self.allowed.contains(kind))
    }
}

/// Whether it corrects the clock by itself, again and again. Guest tools set
/// it when the host says so, to what we would set it to.
fn keeps_all_the_time(kind: TimeKeeperKind) -> bool {
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
        | TimeKeeperKind::HypervUtils => false,
    }
}

fn refused(kind: TimeKeeperKind) -> CliError {
    let name = kind.name();
    let remedy = match kind {
        TimeKeeperKind::Chrony => {
            "--chrony makestep or --chrony sock=PATH to work with it, or stop it first: \
             systemctl disable --now chrony (or chronyd); with --dry-run, --beside chrony"
                .to_owned()
        }
        _ => format!("stop {name} first, or --beside {name} if it leaves the clock alone"),
    };
    CliError::Failed { cause: format!("{name} keeps this clock already"), remedy }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_the_way(
        allowed: &[TimeKeeperKind],
        is_forced: bool,
        running: &[TimeKeeperKind],
    ) -> Option<TimeKeeperKind> {
        let beside =
            Beside { allowed: allowed.to_vec(), is_forced, noted: Vec::new(), looked: None };
        let found = TimeKeeperKind::ALL.map(|kind| TimeKeeper {
            kind,
            installed: true,
            running: running.contains(&kind),
        });
        beside.in_the_way(&found)
    }

    #[test]
    fn who_keeps_the_clock_is_in_the_way_unless_allowed() {
        use TimeKeeperKind::{Chrony, Ntpd, QemuGuestAgent};
        assert_eq!(in_the_way(&[], false, &[]), None);
        assert_eq!(in_the_way(&[], false, &[QemuGuestAgent, Chrony]), Some(Chrony));
        assert_eq!(in_the_way(&[Chrony], false, &[Chrony]), None);
        assert_eq!(in_the_way(&[Chrony], false, &[Chrony, Ntpd]), Some(Ntpd));
        assert_eq!(in_the_way(&[], true, &TimeKeeperKind::ALL), None);
    }
}
