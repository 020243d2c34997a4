//! What a line of a log reports about clocks; messages.txt has the lines' forms.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A kernel log line's event, as far as it concerns clocks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", tag = "kind")]
#[non_exhaustive]
pub enum LogEvent {
    /// `Marking clocksource 'tsc' as unstable because …` and similar lines.
    MarkedUnstable {
        /// Which source.
        clocksource: String,
        /// What follows "because", or older kernels' `delta = N ns`.
        because: String,
    },
    /// The watchdog's figures of the interval it checked.
    WatchdogInterval {
        /// `'hpet' wd_nsec: 503… wd_now: …`: the watchdog's source.
        watchdog: bool,
        /// Which source.
        clocksource: String,
        /// Interval by that source, ns, where the line gives it.
        interval_ns: Option<u64>,
    },
    /// `'hpet' wd2_nsec: 512… wd2_now: …`: a second reference, which some
    /// kernels print beside the watchdog's.
    SecondReference {
        /// Which source.
        clocksource: String,
        /// Interval by that source, ns, where the line gives it.
        interval_ns: Option<u64>,
    },
    /// `Clocksource 'tsc' skewed N ns (M ms) over watchdog … interval of …`
    Skew {
        /// Which source.
        clocksource: String,
        /// Skew over the interval, ns, signed.
        skew_ns: i64,
        /// Length of the interval, ns.
        interval_ns: u64,
    },
    /// The watchdog was read too late, or its read was delayed, under load:
    /// `timekeeping watchdog on CPU…: … read-back delay of …`.
    WatchdogDelayed {
        /// Delay, ns, where the line gives it.
        delay_ns: Option<u64>,
    },
    /// A check came so late that the kernel dropped it, with the two clocks' lengths:
    /// `Long readout interval, skipping watchdog check: cs_nsec: … wd_nsec: …`.
    WatchdogSkipped {
        /// By the clock source under check, ns.
        clock_ns: u64,
        /// By the reference, ns.
        reference_ns: u64,
    },
    /// The kernel left out messages of its watchdog:
    /// `cs_watchdog_read: N callbacks suppressed`.
    WatchdogSuppressed {
        /// How many.
        messages: u64,
    },
    /// A CPU was added while the system ran: `CPU3 has been hot-added`.
    CpuAdded,
    /// KVM on this host started a guest although the host's TSC is unstable:
    /// `SMP vm created on host with unstable TSC; guest TSC will not be reliable`.
    GuestTscUnreliable,
    /// Hyper-V's time message came late:
    /// `hv_utils: TimeSync: stale time stamp, N nsecs old`.
    HostTimeStale {
        /// Its age, ns.
        age_ns: u64,
    },
    /// `clocksource: Switched to clocksource X`
    Switched {
        /// To which source.
        to: String,
    },
    /// arm64: the frequency of the generic timer's counter, which the kernel
    /// read at boot: `arch_timer: cp15 timer running at 62.50MHz (virt).`
    CounterFrequency {
        /// Rounded to 10 kHz.
        hz: u64,
    },
    /// arm64: the kernel emulates reads of the counter, for an erratum:
    /// `arch_timer: CPU0: Trapping CNTVCT access`.
    CounterTrapped,
    /// `tsc: Detected 2445.428 MHz processor` and the refined calibration.
    TscFrequency {
        /// Hz.
        hz: u64,
        /// Refined against another clock later in boot.
        refined: bool,
    },
    /// `kvm-clock: Using msrs 4b564d01 and 4b564d00`
    KvmClock,
    /// `TSC doesn't count with P0 frequency`, `Fast TSC calibration failed`,
    /// `TSC synchronization … failed`, `TSC_ADJUST` differences.
    TscFault,
    /// The machine was restored from a snapshot or forked:
    /// `random: crng reseeded due to virtual machine fork`.
    Restored,
    /// The machine was suspended: `PM: suspend exit`, `PM: hibernation: hibernation exit`;
    /// one for each time.
    Resumed,
    /// `hrtimer: interrupt took N ns`: the vCPU was paused.
    HrtimerLate {
        /// Duration, ns.
        took_ns: u64,
    },
    /// `Clock: inserting leap second …`, `deleting`.
    LeapSecond,
    /// `setting system clock to 2025-10-13T17:07:56 UTC (1760375276)`: the kernel took the RTC's
    /// time.
    Rtc {
        /// That time, s since 1970, where the line gives it.
        unix_s: Option<i64>,
    },
    /// `rcu: INFO: … stall`: often a pause.
    Stall,
    /// `watchdog: BUG: soft lockup - CPU#1 stuck for 53s!`
    CpuStuck {
        /// Which CPU.
        cpu: u64,
        /// For how long, s, where the line gives it.
        for_s: Option<u64>,
    },
    /// How long RCU waited: `(t=44589 jiffies g=-51 q=223 ncpus=2)`. The line does not give the
    /// length of a jiffy.
    RcuStall {
        /// By the kernel's count.
        jiffies: u64,
    },
    /// How many ticks a CPU served meanwhile: `0-...!: (1 ticks this GP)`.
    RcuProgress {
        /// By that CPU's count.
        ticks: Option<u64>,
    },
    /// The timer is not connected as the firmware's table states:
    /// `MP-BIOS bug: 8254 timer not connected to IO-APIC`.
    TimerNotConnected,
    /// The kernel did not set the RTC, whose minutes differ by half an hour or more:
    /// `set_rtc_mmss: can't update from 52 to 0`.
    RtcNotSet {
        /// The RTC's minute.
        rtc_min: u64,
        /// The clock's minute.
        system_min: u64,
    },
    /// A boot begins: `Linux version 6.1.0-18-amd64`, `-- Boot …`.
    Boot {
        /// The kernel's release, where the line gives it.
        release: Option<String>,
    },
    /// A time daemon stepped the clock, or stated that it is about to.
    DaemonStepped {
        /// By how much, s: positive where the clock was behind.
        by_s: f64,
    },
    /// chronyd noticed that something else changes this clock.
    ClockInterference,
    /// A time daemon's frequency correction.
    DaemonFrequency {
        /// As the daemon writes it, ppm.
        ppm: f64,
    },
    /// VirtualBox's guest tools saw the host's time jump.
    HostTimeJumped {
        /// By how much, ns.
        by_ns: i64,
    },
    /// A program saw the time of day leap: chronyd's `Forward time jump detected!`,
    /// `Backward time jump detected!`, journald's `Time jumped backwards, rotating.`
    TimeLeapt {
        /// Which way.
        direction: Direction,
    },
    /// chronyd's sources contradict each other: `Can't synchronise: no majority`.
    NoMajority,
    /// chronyd may not set the clock: `Could not step system clock`.
    StepRefused,
    /// chronyd may not read the clock: `Fatal error : clock_gettime() failed : …`.
    ClockUnreadable {
        /// The system's reason.
        because: String,
    },
    /// A daemon has no server to follow: `Can't synchronise: no selectable sources`.
    NoSource,
    /// A server is not asked any more: `Source 192.0.2.1 offline`.
    SourceLost {
        /// Which one.
        source: String,
    },
    /// A server is asked again: `Source 192.0.2.1 online`.
    SourceFound {
        /// Which one.
        source: String,
    },
    /// A daemon follows a server: `Selected source 192.0.2.1`.
    SourceSelected {
        /// Which one.
        source: String,
    },
    /// A daemon ended because the clock is further off than it may correct:
    /// `panic_stop +3712 s; set clock manually within 1000 s.`
    DaemonEnded {
        /// By how much, s: positive where the clock was behind.
        by_s: Option<f64>,
        /// Its limit, s.
        limit_s: Option<f64>,
    },
    /// A daemon slews the clock: `adjusting local clock by -0.225044s` (OpenNTPD).
    DaemonSlewed {
        /// By how much, s: positive where the clock was behind.
        by_s: f64,
    },
    /// Something set the clock: systemd's `Time has been changed`, or who did it.
    ClockSet {
        /// Who, where the line shows it.
        by: Option<String>,
    },
    /// VBoxService found its guest's clock moved: `Radical guest time change: …`.
    GuestTimeJumped {
        /// By how much, ns.
        by_ns: i64,
    },
    /// VBoxService compared its guest's clock with the host's.
    GuestBehindHost {
        /// By how much it is behind, ns.
        by_ns: i64,
    },
    /// VBoxService slews the clock: `adjtime by … ns`.
    GuestSlewed {
        /// By how much, ns.
        by_ns: i64,
    },
    /// VirtualBox on the host gave up to make up for time in which the guest did not run.
    LagGivenUp {
        /// That time, ns.
        by_ns: i64,
        /// All such time since the start, ns.
        total_ns: i64,
    },
    /// VirtualBox runs on another hypervisor (Hyper-V), by its interface NEM.
    NativeHypervisor,
    /// VMware's tools stepped the clock.
    ToolsStepped {
        /// Its own stamp from before the step: the time of day, s.
        stamped_s: Option<f64>,
    },
    /// ntpd's correction is at its limit:
    /// `frequency error 512 PPM exceeds tolerance 500 PPM`.
    FrequencyBeyondLimit {
        /// As the daemon writes it, ppm.
        ppm: f64,
    },
    /// ntpd finds the kernel's clock unsynchronised: `kernel reports TIME_ERROR: 0x2041`.
    Unsynchronised,
    /// Hyper-V's guest driver set the clock:
    /// `hv_utils: TimeSync - Current {s, ns}; New {s, ns}`.
    HypervisorStepped {
        /// By how much, ns: positive where the clock was behind.
        by_ns: i64,
    },
    /// The kernel counted timer ticks that did not come (2.6):
    /// `time.c: Lost 5 timer tick(s)!`, `Losing some ticks...`, `many lost ticks`.
    TicksLost {
        /// How many, where the line gives it.
        ticks: Option<u64>,
    },
    /// Xen's time was behind what the guest had counted:
    /// `Timer ISR/0: Time went backwards: delta=-118088543`.
    XenBackward {
        /// The difference, ns: negative.
        by_ns: i64,
    },
    /// A test provokes the messages of the watchdog: `clocksource_wdtest: …`,
    /// `clocksource_watchdog_inject_delay(): …`, a probe planted at the reference's read.
    WatchdogTest,
    /// A CPU's nominal rate, by its name or by all CPUs' BogoMIPS.
    CpuRate {
        /// Hz.
        hz: u64,
    },
    /// What a program states of a clock, as messages.txt names it.
    Stated {
        /// The statement's name: `clock-back`.
        of: String,
        /// By how much, s, where the line gives it; the name has the direction.
        by_s: Option<f64>,
    },
    /// What ptp4l or phc2sys found of a clock: `phc offset 240 s2 freq -62509628`.
    PtpReading {
        /// By how much it was off, s.
        by_s: f64,
        /// The rate by which it is corrected, ppm.
        ppm: f64,
        /// The servo's state: 0 has no lock yet, 1 steps now, 2 is locked.
        servo: Option<u64>,
    },
    /// A program that writes the CPU's frequency or counter, by the line that it logs.
    CounterWriter {
        /// Which one.
        by: String,
    },
    /// What each healthy machine logs: no line of this form shows a fault.
    Harmless,
    /// About clocks, of no known form.
    Other,
}

impl LogEvent {
    /// Whether a finding may rest on it; the other events are of a healthy boot too.
    pub fn is_fault(&self) -> bool {
        !matches!(
            self,
            Self::Other
                | Self::Boot { .. }
                | Self::CounterFrequency { .. }
                | Self::CpuRate { .. }
                | Self::DaemonFrequency { .. }
                | Self::Harmless
                | Self::KvmClock
                | Self::Rtc { .. }
                | Self::SourceFound { .. }
                | Self::SourceSelected { .. }
                | Self::Switched { .. }
                | Self::TscFrequency { .. }
        )
    }
}

/// Which way a clock leapt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// To a later time.
    Forward,
    /// To an earlier time.
    Backward,
}
