//! The deeds of a row, by their names in the table.

use serde::Deserialize;

/// What is done to a machine beyond the usual commands; one file each in `deeds`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Deed {
    /// The lab's agreement of the kernel's clocks with ours, on /dev/kvm.
    Agreement,
    /// chronyd follows a server outside, which steps.
    Chrony,
    /// Ten minutes of `watch` in which nothing happens.
    Calm,
    /// Somebody in the machine changes its clocks, its RTC and its CPUs.
    Changes,
    /// `watch` and `keep` in a machine that is paused, migrated and restored,
    /// and whose clock is set and steered: a machine of its own.
    Disruptions,
    /// `drift` against NTP servers of known error; with `--long`, a hundred times.
    Drift,
    /// The same once, without an RTC: another row has the hundred.
    DriftOnce,
    /// The same, where a daemon steers: CLOCK_MONOTONIC_RAW alone.
    DriftRaw,
    /// `parachrond` with a gate, in a machine that is saved with the gate closed and put back
    /// often: a machine of its own.
    Gate,
    /// The lab's guest image and its report: no Linux.
    Image,
    /// All of the lab's experiments on /dev/kvm.
    Lab,
    /// Causes of lateness, forced: a machine of its own.
    Lateness,
    /// It moves, running, to another QEMU.
    Migration,
    /// Our packages are installed, upgraded, removed and purged.
    Packages,
    /// QEMU stops it for a while: 0.3, 2 and 60 s.
    Pauses,
    /// `keep` by the PTP clock of the host, in a machine that is paused.
    Phc,
    /// `keep` with two NTP servers, in a machine that is paused.
    Keep,
    /// `keep` with three NTP servers that announce a leap second, and that are fast by 2 %.
    KeepAnnounced,
    /// `parachrond` alone by a VMClock page of known rate; in a machine of its own also an
    /// hour without that.
    KeepByPage,
    /// `keep` with a wrong RTC and a server that is silent.
    KeepRtcAlone,
    /// The row's kernels as guests of the lab's own machine.
    LinuxOnProvider,
    /// The same, saved and restored in other processes.
    LinuxMoved,
    /// Booted again by kexec, suspended, and then moved.
    LinuxAgain,
    /// Moved, with the time of day kept by the VMClock inside.
    LinuxKept,
    /// Watched for ten minutes.
    LinuxSilent,
    /// The kernel inserts a leap second.
    LeapSecond,
    /// What `doctor` says of what an administrator did.
    Rules,
    /// The host's CPU changes its frequency.
    Scale,
    /// `parachrond` as a service of the machine's systemd.
    Service,
    /// The same beside a chronyd that follows a server.
    ServiceBesideChronyd,
    /// `parachrond-chrony.service`, after the other was there.
    ServiceOfChronyd,
    /// Beside systemd-timesyncd.
    ServiceBesideTimesyncd,
    /// Beside ntpd, as NTPsec has it.
    ServiceBesideNtpsec,
    /// Beside ntpd-rs.
    ServiceBesideNtpdRs,
    /// By the host's word on a virtio-serial port: 20 stops alone, a leap second,
    /// 20 stops beside chronyd.
    ServiceByPort,
    /// The same as packaged, so at most one step in 30 s: 5 stops, alone.
    ServiceAsShipped,
    /// And 5 beside chronyd.
    ServiceAsShippedBesideChronyd,
    /// By the host's PTP clock, on a disk that is full.
    ServiceOnFullDisk,
    /// Beside chronyd: suspended, a date set, without a network, a server that lies, a
    /// leap second.
    ServiceDisruptedBesideChronyd,
    /// By servers of which one lies; the RTC, and a boot without a network.
    ServiceByServers,
    /// Stopped for ten minutes; and the kernel's write to the RTC.
    ServiceForLong,
    /// Beside chronyd, in a machine that is saved, restored twice, and moved.
    ServiceMoved,
    /// `keep` by `ptp_kvm`: 20 stops, alone and beside chronyd.
    KeepByPtp,
    /// `keep`, told by its host's `tell` over AF_VSOCK: 20 stops.
    KeepByVsock,
    /// QEMU saves the machine and puts it back.
    Snapshot,
    /// Suspend to RAM, and wake up.
    Suspend,
    /// What the doctor says of the CPUs' TSCs, beside a witness.
    TscOrder,
    /// Others take its CPU on the host.
    Steal,
    /// Its control domain pauses it, and saves and restores it.
    StopsByXen,
    /// Random programs of adjtimex, held against the model of a kernel.
    Timex,
    /// `drift` against a VMClock page of known rate.
    Vmclock,
    /// What `watch` and `parachrond` cost, by the kernel's account.
    WatchCost,
}
