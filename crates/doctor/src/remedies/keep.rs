//! Have the clock kept: by `parachrond` where that is installed, else by `parachron keep`.
//! Beside chronyd that is the recommended set-up (docs/guide/keep.md, "With chrony"): it
//! steps at once, where a chronyd that is told to step (`--chrony makestep`) takes seconds.

use facts::kernel::version::KernelVersion;
use facts::steering::TimeKeeperKind;

use crate::case::Case;
use crate::finding::Remedy;

/// Since then the kernel announces to all that the machine is a copy (NEW_VMGENID,
/// drivers/virt/vmgenid.c); before, in its log alone.
const ANNOUNCES: KernelVersion = KernelVersion { major: 6, minor: 10 };

/// What a keeper on this machine goes by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Signal {
    /// The host's clock, which is compared in each sample.
    HostsClock,
    /// What shows each pause to anybody: then servers are asked.
    Pauses,
    /// What shows a restore to anybody.
    Restores,
    /// At most the kernel's log shows a restore, to root alone; else the next poll does.
    AtMostByLog,
}

/// Correct the clock after each pause and restore.
pub(crate) fn keep(case: &Case<'_>) -> Remedy {
    if case.in_container() {
        return Remedy::advice("Run parachrond on the machine itself: containers share its clock.");
    }
    let signal = signal(case);
    let needs_servers = signal != Signal::HostsClock;
    let (command, changes) = match (is_installed(case), needs_servers) {
        (true, false) => ("sudo systemctl enable --now parachrond", SERVICE),
        (true, true) => (
            "echo 'ntp = [\"ADDRESS\", \"ANOTHER\"]' | sudo tee -a \
             /etc/parachron/parachrond.toml && parachrond --check && sudo systemctl enable \
             parachrond && sudo systemctl restart parachrond",
            SERVICE,
        ),
        (false, false) => ("sudo parachron keep", FOREGROUND),
        (false, true) => ("sudo parachron keep --ntp ADDRESS --ntp ANOTHER", FOREGROUND),
    };
    let beside = if case.running(&[TimeKeeperKind::Chrony]).is_empty() {
        ""
    } else {
        "; chronyd still controls the frequency, parachron only steps the clock"
    };
    Remedy::command(text(signal), command).changes(format!("{changes}{beside}"))
}

const SERVICE: &str = "the time of day, from now on and after a reboot";
const FOREGROUND: &str = "the time of day, while the program runs; install parachrond.service \
                          (docs/guide/keep.md) to run it after a reboot too";

fn text(signal: Signal) -> &'static str {
    match signal {
        Signal::HostsClock => "Correct the clock within a second of each pause and restore.",
        Signal::Pauses => {
            "Correct the clock within a second of a server's first reply after each pause and \
             restore."
        }
        Signal::Restores => {
            "Correct the clock within a second of a server's first reply after each restore."
        }
        Signal::AtMostByLog => {
            "Correct the clock from NTP servers. Here only the kernel's log can show a restore: \
             `parachron keep`, run as root, reads the log and corrects the clock within a second \
             of a server's reply; the service may not read the log and corrects the clock at its \
             next poll, up to 64 s later."
        }
    }
}

fn is_installed(case: &Case<'_>) -> bool {
    let keepers = case.keepers().into_iter().flatten();
    keepers
        .filter(|keeper| keeper.kind == TimeKeeperKind::ParachronKeep)
        .any(|keeper| keeper.installed)
}

fn signal(case: &Case<'_>) -> Signal {
    // The page itself is a source where its host states the time (pvclock's vmclock).
    const SYNCHRONISED: u8 = 2;
    let page = case.vmclock().ok();
    if case.host_phcs().next().is_some()
        || page.is_some_and(|page| page.clock_status == SYNCHRONISED)
    {
        return Signal::HostsClock;
    }
    if case.rtcs().is_ok_and(|all| !all.is_empty()) {
        return Signal::Pauses;
    }
    let announces = case
        .release()
        .ok()
        .and_then(KernelVersion::parse)
        .is_some_and(|version| version >= ANNOUNCES);
    let is_announced = announces && case.generation_device().is_some();
    if page.is_some() || is_announced { Signal::Restores } else { Signal::AtMostByLog }
}

#[cfg(test)]
mod tests;
