//! chronyd's reference clocks, as devices of this machine.

use facts::hardware::{Phc, PhcDriver};
use facts::steering::chrony_config::RefClock;

use super::Case;

impl<'a> Case<'a> {
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
