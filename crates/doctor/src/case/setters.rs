//! Who sets this clock: the programs that can, whether they run and may, whom they follow, and
//! what confirms them.

use facts::cpu::HypervisorKind;
use facts::hardware::{Phc, PhcDriver, RtcConvention};
use facts::steering::chrony_config::{ChronyConfig, RefClock};
use facts::steering::{Adjtimex, ChronyTracking, TimeKeeper, TimeKeeperKind};
use instruments::figures;
use instruments::measurements::ComparedReference;

use super::{Case, FAR_S, whole_quarter_hours};
use crate::rule::{Skipped, perhaps};

impl<'a> Case<'a> {
    /// The clock beside references; in a confidential guest the host has no vote.
    pub(crate) fn references(&self) -> Vec<&'a ComparedReference> {
        let is_confidential = self.confidential().is_some();
        let all = self.measurements.into_iter().flat_map(|found| &found.references);
        all.filter(|one| one.name.starts_with("ntp ") || !is_confidential).collect()
    }

    /// chronyd's state, where it follows a source other than this machine's own clock.
    pub(crate) fn followed(&self) -> Option<&'a ChronyTracking> {
        self.tracking().ok().filter(|state| state.is_synchronised() && !state.is_own_clock())
    }

    /// Programs of these kinds that run now.
    pub(crate) fn running(&self, kinds: &[TimeKeeperKind]) -> Vec<&'a TimeKeeper> {
        let keepers = self.keepers().into_iter().flatten();
        keepers.filter(|keeper| keeper.running && kinds.contains(&keeper.kind)).collect()
    }

    /// Whether `parachron keep` corrects this clock, and has a source: it clears STA_UNSYNC
    /// while one shows that the clock is right.
    pub(crate) fn is_kept(&self) -> bool {
        let synchronised = |state: &Adjtimex| !state.has(Adjtimex::STA_UNSYNC);
        self.adjtimex().is_ok_and(synchronised)
            && !self.running(&[TimeKeeperKind::ParachronKeep]).is_empty()
    }

    /// Whether no program that disciplines the clock runs.
    pub(crate) fn is_unkept(&self) -> bool {
        self.keepers().is_ok_and(|all| !all.iter().any(|one| one.running && one.kind.disciplines()))
    }

    /// chronyd's configuration, where it runs and the configuration is readable.
    pub(crate) fn chrony_config(&self) -> Option<&'a ChronyConfig> {
        let runs = !self.running(&[TimeKeeperKind::Chrony]).is_empty();
        self.chrony_file().ok().filter(|_| runs)
    }

    /// By how much a guest's RTC, which follows its host, is ahead of the system clock, unless
    /// chronyd's servers confirm the latter: a guest that was paused, or its host asleep.
    pub(crate) fn behind_rtc(&self) -> Option<String> {
        let &ahead_s = self.rtc_minus_system_s().ok()?;
        let is_pause = ahead_s >= FAR_S && !whole_quarter_hours(ahead_s.unsigned_abs());
        let is_guest = self.is_guest() == Some(true);
        (is_pause && is_guest && !self.is_confirmed()).then(|| figures::seconds(ahead_s as f64))
    }

    /// That the RTC contradicts the clock, by more than it drifts or a time zone explains.
    pub(crate) fn rtc_differs(&self) -> Option<String> {
        let &ahead_s = self.rtc_minus_system_s().ok()?;
        let off_s = ahead_s.unsigned_abs();
        let is_zone =
            self.rtc_convention() == Ok(&RtcConvention::Local) && whole_quarter_hours(off_s);
        let direction = if ahead_s > 0 { "ahead of" } else { "behind" };
        let off = figures::seconds(off_s as f64);
        (off_s >= FAR_S.unsigned_abs() && !is_zone)
            .then(|| format!("the RTC is {off} {direction} the system clock"))
    }

    /// chronyd's configuration, also where nothing shows whether chronyd runs: a capture of the
    /// file alone.
    pub(crate) fn chrony_config_perhaps_used(&self) -> Result<&'a ChronyConfig, Skipped> {
        let is_seen = perhaps(self.keepers())?.is_some();
        if is_seen && self.running(&[TimeKeeperKind::Chrony]).is_empty() {
            return Err(Skipped::DoesNotApply("does not apply: chronyd does not run".to_owned()));
        }
        self.chrony_file()
    }

    /// A network card's clock that chronyd's configuration names, and that no linuxptp sets.
    pub(crate) fn free_card(&self) -> Option<(&'a RefClock, &'a Phc)> {
        let config = self.chrony_config_perhaps_used().ok()?;
        let is_card = |phc: &&Phc| phc.driver() == PhcDriver::Other && !phc.clock_name.is_empty();
        let is_set = !self.running(&[TimeKeeperKind::LinuxPtp]).is_empty();
        let card = |line| self.phc_named(line).filter(is_card).map(|phc| (line, phc));
        config.phcs().find_map(card).filter(|_| !is_set)
    }

    /// The evidence of a finding from such a file.
    pub(crate) fn perhaps_unused(&self, program: &str) -> Option<String> {
        self.keepers()
            .is_err()
            .then(|| format!("not in the capture: whether {program} runs, and with this file"))
    }

    /// Whether references or chronyd's sources confirm the system clock to a second now.
    pub(crate) fn is_confirmed(&self) -> bool {
        let references = self.references();
        let mut given =
            references.iter().filter_map(|one| Some((one.offset_s?.abs(), one.bound_s)));
        if let Some(first) = given.next() {
            return std::iter::once(first)
                .chain(given)
                .all(|(off_s, bound_s)| off_s + bound_s < 1.0);
        }
        // chronyd stands with its guest, and notices a pause at its next poll.
        let may_be_paused = self.is_guest() == Some(true)
            && self.rtc_minus_system_s().is_ok_and(|ahead_s| *ahead_s >= FAR_S);
        !may_be_paused
            && self.followed().is_some_and(|tracking| {
                let bound_s = tracking.root_dispersion_s + tracking.root_delay_s / 2.0;
                tracking.system_offset_s.abs() + bound_s < 1.0
            })
    }

    /// A unit's condition on a container, which systemd may take this machine for.
    pub(crate) fn has_container_condition(&self, unit: &str) -> bool {
        self.unit_states(unit).any(|state| state == "ConditionVirtualization=!container")
    }

    /// What its unit's files state: `masked`, `enabled`, conditions.
    fn unit_states(&self, unit: &str) -> impl Iterator<Item = &'a str> {
        let start = format!("{unit}.service ");
        let all = self.unit_conditions().unwrap_or_default().iter();
        all.filter_map(move |line| line.strip_prefix(start.as_str()))
    }

    /// Whether systemd should run a unit.
    pub(crate) fn is_enabled(&self, unit: &str) -> bool {
        self.unit_states(unit).any(|state| state == "enabled")
    }

    /// Whether networkd states that the machine is offline, where timesyncd goes by it.
    pub(crate) fn is_offline(&self, kind: TimeKeeperKind) -> bool {
        kind == TimeKeeperKind::SystemdTimesyncd
            && self.unit_states("systemd-timesyncd").any(|state| state == "offline")
    }

    /// What keeps systemd from starting a unit: `masked`, or the condition that does not hold
    /// here.
    pub(crate) fn unmet_condition(&self, unit: &str) -> Option<&'a str> {
        let mut conditions = self.unit_states(unit);
        // systemd counts WSL as a container (src/basic/virt.c).
        let in_container =
            self.in_container() || self.release().is_ok_and(|release| release.contains("WSL"));
        conditions.find(|condition| match condition.split_once('=') {
            None => *condition == "masked",
            Some(("ConditionVirtualization", wanted)) => {
                self.is_virtualized_as(wanted.trim_start_matches('!'), in_container)
                    == Some(wanted.starts_with('!'))
            }
            Some(("ConditionFileIsExecutable", path)) => {
                path.starts_with('!')
                    && self.keepers().into_iter().flatten().any(|keeper| {
                        keeper.installed && path.ends_with(&format!("/{}", keeper.kind.program()))
                    })
            }
            _ => false,
        })
    }

    /// Whether a value of ConditionVirtualization= names this machine (systemd.unit(5)).
    fn is_virtualized_as(&self, value: &str, in_container: bool) -> Option<bool> {
        let is_any = match (in_container, self.is_guest()) {
            (true, _) => Some(true),
            (false, known) => known,
        };
        let kind = match self.kind() {
            _ if self.is_virtualbox() => "oracle",
            Some(HypervisorKind::HyperV) => "microsoft",
            Some(HypervisorKind::Vmware) => "vmware",
            Some(HypervisorKind::Xen) => "xen",
            Some(HypervisorKind::Kvm) => "kvm",
            _ => "",
        };
        match value {
            "yes" | "true" => is_any,
            "no" | "false" => is_any.map(|is_any| !is_any),
            "container" => Some(in_container),
            "vm" if in_container => Some(false),
            "vm" => self.is_guest(),
            _ if !in_container && value == kind => Some(true),
            _ => None,
        }
    }

    /// The PTP clock that a line of chronyd's configuration names.
    pub(crate) fn phc_named(&self, line: &RefClock) -> Option<&'a Phc> {
        let phcs = self.phcs().ok()?;
        let device = line.parameter.as_str();
        let exactly = |phc: &&Phc| phc.device == device || phc.link.as_deref() == Some(device);
        // A tree may lack the links.
        let by_name = |phc: &&Phc| match device {
            "/dev/ptp_hyperv" => phc.driver() == PhcDriver::HyperV,
            "/dev/ptp_kvm" => phc.driver() == PhcDriver::Kvm,
            "/dev/ptp_ena" => phc.driver() == PhcDriver::Ena,
            _ => false,
        };
        phcs.iter().find(exactly).or_else(|| phcs.iter().find(by_name))
    }

    /// The host's clock that chronyd follows now as a PTP device, by its name
    /// in `chronyc tracking`; none where it follows a network card's.
    pub(crate) fn phc_followed(&self) -> Option<&'a str> {
        let reference = self.tracking().ok()?.reference.as_str();
        let number = reference.strip_prefix("PHC").and_then(|rest| rest.parse::<usize>().ok());
        let Some(config) = self.chrony_config() else {
            // All that is known is that it is a PTP clock.
            let only_hosts = match self.phcs() {
                Ok(phcs) => phcs.iter().all(Phc::is_hosts),
                Err(_) => true,
            };
            return (number.is_some() && only_hosts).then_some(reference);
        };
        // Unnamed reference clocks are called by their driver and their place
        // among the lines, PHC0 (chrony.conf(5), refid). A name of their own is
        // not kept: it is told from a server's where there is no server, and no
        // other reference clock.
        let line = match (number, config.refclocks.as_slice()) {
            (Some(at), lines) => lines.get(at)?,
            (None, [only]) if config.servers.is_empty() && is_short(reference) => only,
            _ => return None,
        };
        let is_phc = line.driver.eq_ignore_ascii_case("PHC");
        let is_hosts = match self.phcs() {
            Ok(_) => self.phc_named(line).is_some_and(Phc::is_hosts),
            Err(_) => true,
        };
        (is_phc && is_hosts).then_some(reference)
    }
}

/// Whether it can be a reference clock's name: at most four characters.
fn is_short(reference: &str) -> bool {
    (1..=4).contains(&reference.len()) && !reference.contains([':', '.'])
}

#[cfg(test)]
mod tests {
    use facts::Fact;
    use facts::steering::chrony_config;

    use crate::case::Case;
    use crate::testing::healthy_firecracker;

    fn followed(clock_name: &str, reference: &str, config: &str) -> bool {
        let mut facts = healthy_firecracker();
        if let Fact::Known(phcs) = &mut facts.phcs {
            phcs[0].clock_name = clock_name.into();
        }
        if let Fact::Known(tracking) = &mut facts.steering.chrony {
            tracking.reference = reference.into();
        }
        facts.steering.chrony_config = chrony_config::parse(config);
        Case::new(&facts, None).phc_followed().is_some()
    }

    #[test]
    fn only_a_host_s_clock_that_the_name_means_is_followed() {
        let (kvm, alone) = ("KVM virtual PTP", "refclock PHC /dev/ptp0\n");
        assert!(followed(kvm, "PHC0", alone));
        assert!(followed(kvm, "HOST", alone), "a name of its own");
        assert!(!followed("mlx5_ptp", "PHC0", alone), "a network card's");
        assert!(!followed(kvm, "PHC0", "refclock PHC /dev/ptp7\nrefclock PHC /dev/ptp0\n"));
        assert!(!followed(kvm, "ntp1", "refclock PHC /dev/ptp0\nserver ntp1\n"));
        assert!(!followed(kvm, "PHC0", "refclock PPS /dev/pps0\nserver ntp1\n"));
    }
}
