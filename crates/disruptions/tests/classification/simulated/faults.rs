//! What can happen to a machine, and what its host and kernel make of it.

use pvclock::kvm_clock::Flags;
use pvclock::{Hertz, Scale};

use facts::running::Stolen;

use super::{Machine, S, Source};

/// Which clocks run while a host pauses a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Running {
    /// TSC and host's clock: a host that just stops the virtual CPUs.
    All,
    /// The TSC alone, while the host rewinds its page: QEMU's stop and cont.
    Tsc,
    /// The host's clock alone: a snapshot with its real time, or a host that
    /// was suspended and whose TSC restarted.
    Host,
    /// Nothing but the RTC: savevm and loadvm, or software emulation.
    Nothing,
}

/// What the TSC did while the machine was suspended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AsleepTsc {
    Ran,
    Stood,
    Restarted,
}

impl Machine {
    /// The host pauses this machine.
    pub(crate) fn pause(&mut self, ns: u64, running: Running) {
        let tsc = matches!(running, Running::All | Running::Tsc);
        let host = matches!(running, Running::All | Running::Host);
        self.activity.interrupts += 1;
        // An emulated timer stops with the virtual machine.
        self.passes(ns, tsc, host, false);
    }

    /// A timer that the host emulates resumes a little ahead of where it
    /// stopped.
    pub(crate) fn hpet_resumes_ahead(&mut self, by_ns: u64) {
        self.hpet_ns += by_ns;
        self.keep_time();
    }

    /// The host reports the pause.
    pub(crate) fn guest_was_stopped(&mut self) {
        if let Some(page) = &mut self.page {
            page.version += 2;
            page.flags = page.flags.union(Flags::GUEST_STOPPED);
        }
    }

    pub(crate) fn set_clock(&mut self, by_ns: i64) {
        self.unix_offset_ns = self.unix_offset_ns.checked_add_signed(by_ns).unwrap();
        self.was_set = true;
    }

    /// `state` and status bit are adjtimex's: 1 and 0x10 to insert, 2 and
    /// 0x20 to delete.
    pub(crate) fn announce_leap(&mut self, state: i32, bit: u32) {
        self.adjtimex.state = state;
        self.adjtimex.status |= bit;
    }

    pub(crate) fn leap(&mut self, by_s: i64) {
        self.set_clock(by_s * S as i64);
        self.adjtimex.state = 3;
        self.adjtimex.tai_s -= by_s as i32;
    }

    /// The kernel stops its clocks and learns from the RTC, in whole seconds, how
    /// long the suspend lasted.
    pub(crate) fn suspend(&mut self, ns: u64, tsc: AsleepTsc) {
        let before_s = self.now_ns / S;
        self.now_ns += ns;
        match tsc {
            AsleepTsc::Ran => self.tsc += ns * 2,
            AsleepTsc::Stood => {}
            AsleepTsc::Restarted => self.tsc = S,
        }
        let shown = self.page_ns();
        self.rewrite_page(shown);
        self.source_ns = self.read_source();
        let slept_ns = (self.now_ns / S - before_s) * S;
        self.slept_ns += slept_ns;
        self.unix_offset_ns += slept_ns;
        self.was_set = true;
    }

    pub(crate) fn log_of_a_suspend(&mut self) {
        self.log.push_str("6,900,5000000,-;PM: suspend exit\n");
    }

    /// The CPU's frequency changes, and with it its TSC's: the host states it a
    /// few µs later.
    pub(crate) fn scale_cpu(&mut self, hz: u64) {
        self.tsc_hz = hz;
        self.run(5_000);
        self.other_tsc(hz);
    }

    /// The observer's CPU is taken away: it runs on another, whose TSC is ahead.
    pub(crate) fn take_cpu_away(&mut self, ahead_cycles: u64) {
        self.cpu ^= 1;
        self.activity.stolen.retain(|stolen| stolen.cpu != 0);
        self.tsc += ahead_cycles;
        self.source_ns = self.read_source();
    }

    /// The first CPU comes back; the observer stays where it is.
    pub(crate) fn bring_cpu_back(&mut self) {
        self.activity.stolen.insert(0, Stolen { cpu: 0, stolen_ns: 0 });
    }

    /// Xen counts a paused domain's time as stolen.
    pub(crate) fn pause_by_xen(&mut self, ns: u64) {
        self.steal(ns, true);
    }

    /// chronyd slews by the tick: 10 % fast or slow.
    pub(crate) fn slew_by_tick(&mut self, tick_us: i64) {
        self.adjtimex.tick_us = tick_us;
    }

    pub(crate) fn new_generation(&mut self) {
        if let Some(vmclock) = &mut self.vmclock {
            vmclock.vm_generation = vmclock.vm_generation.map(|generation| generation + 1);
            vmclock.disruption_marker += 1;
        }
    }

    pub(crate) fn log_of_a_fork(&mut self) {
        self.log.push_str("5,901,5000000,-;random: crng reseeded due to virtual machine fork\n");
    }

    pub(crate) fn announce_generation(&mut self) {
        self.new_generation = true;
    }

    pub(crate) fn mark_disruption(&mut self) {
        if let Some(vmclock) = &mut self.vmclock {
            vmclock.disruption_marker += 1;
        }
    }

    /// Another host's TSC, whose frequency the page states.
    pub(crate) fn other_tsc(&mut self, hz: u64) {
        let shown = self.page_ns();
        self.tsc_hz = hz;
        if let Some(page) = &mut self.page {
            page.scale = Scale::from_hertz(Hertz(hz)).unwrap();
        }
        self.rewrite_page(shown);
    }

    /// The TSC jumps, and the page is rewritten to compensate.
    pub(crate) fn jump_tsc(&mut self, cycles: i64) {
        let shown = self.page_ns();
        self.tsc = self.tsc.checked_add_signed(cycles).unwrap();
        self.rewrite_page(shown);
        self.source_ns = self.read_source();
    }

    pub(crate) fn log_of_an_unstable_tsc(&mut self) {
        self.log.push_str(
            "4,902,5000000,-;clocksource: Marking clocksource tsc unstable due to frequency skew\n",
        );
    }

    pub(crate) fn switch_source(&mut self, source: Source) {
        self.take_source(source);
        self.log.push_str(&format!(
            "6,902,5000000,-;clocksource: Switched to clocksource {}\n",
            source.name()
        ));
    }

    /// The host's clock is corrected.
    pub(crate) fn step_host(&mut self, by_ns: i64) {
        let shown = self.page_ns().and_then(|shown| shown.checked_add_signed(by_ns));
        self.rewrite_page(shown);
        self.keep_time();
    }

    /// The host runs others on one CPU, or on all of them.
    pub(crate) fn steal(&mut self, ns: u64, all_cpus: bool) {
        if all_cpus {
            self.passes(ns, true, true, true);
        } else {
            self.run(ns);
        }
        let ticks = ns / 10_000_000;
        let stolen = self.activity.stolen.iter_mut().take(if all_cpus { usize::MAX } else { 1 });
        stolen.for_each(|stolen| stolen.stolen_ns += ticks * 10_000_000);
    }

    /// An NTP daemon changes the frequency.
    pub(crate) fn steer(&mut self, ppm: f64) {
        self.adjtimex.frequency_ppm = ppm;
    }

    /// Other threads run on the CPU.
    pub(crate) fn delay_thread(&mut self, ns: u64) {
        self.run(ns);
        self.thread.waited_ns += ns;
        self.thread.turns += 1;
    }

    /// This process alone is stopped, by a signal or otherwise.
    pub(crate) fn stop_process(&mut self, ns: u64, by_signal: bool) {
        self.run(ns);
        self.thread.turns += 1;
        self.was_stopped = by_signal;
    }

    /// The RTC is wrong by this.
    pub(crate) fn set_rtc_error(&mut self, by_s: i64) {
        self.rtc_off_s = by_s;
    }
}
