//! The deeds of a row, by their names in the table.

use serde::Deserialize;

/// What is done to a machine beyond the usual commands; one file each in `deeds`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Deed {
    /// Ten minutes of `watch` in which nothing happens.
    Calm,
    /// Somebody in the machine changes its clocks, its RTC and its CPUs.
    Changes,
    /// `drift` against NTP servers of known error.
    Drift,
    /// `parachrond` with a gate, in a machine that is saved with the gate closed and put back
    /// often: a machine of its own.
    Gate,
    /// Somebody sets the host's time of day: nothing of that reaches it.
    HostTime,
    /// The lab's guest image and its report: no Linux.
    Image,
    /// `parachrond` alone by a VMClock page of known rate.
    KeepByPage,
    /// `keep` by `ptp_kvm`: 20 stops.
    KeepByPtp,
    /// `keep` by servers: slews, `--never-backward`, `--dry-run`.
    KeepByServers,
    /// `keep`, told by its host's `tell` over AF_VSOCK: 20 stops.
    KeepByVsock,
    /// `keep` with a wrong RTC and a server that is silent.
    KeepRtcAlone,
    /// The lab's experiments on /dev/kvm.
    Lab,
    /// The kernel inserts a leap second.
    LeapSecond,
    /// The kernel's line by `parachrond` alone, to 10 ns of a VMClock page's: a machine
    /// of its own.
    Line,
    /// The row's kernels as guests of the lab's own machine: booted again by kexec, and then
    /// moved.
    LinuxAgain,
    /// The same, saved and restored.
    LinuxMoved,
    /// The same, booted on every provider.
    LinuxOnProvider,
    /// It moves, running, to another QEMU.
    Migration,
    /// Our packages are installed, upgraded, removed and purged.
    Packages,
    /// QEMU stops it for a while: 0.3, 2 and 60 s.
    Pauses,
    /// `keep` by the PTP clock of the host, in a machine that is paused.
    Phc,
    /// The host's CPU changes its frequency.
    Scale,
    /// `parachrond` as a service of the machine's systemd.
    Service,
    /// The same beside a chronyd that follows a server.
    ServiceBesideChronyd,
    /// By the host's word on a virtio-serial port: 20 stops alone, a leap second,
    /// 20 stops beside chronyd.
    ServiceByPort,
    /// By servers of which one lies; the RTC, and a boot without a network.
    ServiceByServers,
    /// `parachrond-chrony.service`, after the other was there.
    ServiceOfChronyd,
    /// By the host's PTP clock, on a disk that is full: a machine of its own.
    ServiceOnFullDisk,
    /// QEMU saves the machine and puts it back.
    Snapshot,
    /// Others take its CPU on the host.
    Steal,
    /// Its control domain pauses it, and saves and restores it.
    StopsByXen,
    /// Suspend to RAM, and wake up.
    Suspend,
    /// What the doctor says of the CPUs' TSCs, beside a witness.
    TscOrder,
    /// `drift` against a VMClock page of known rate.
    Vmclock,
}
