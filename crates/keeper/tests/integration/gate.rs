//! Restores drawn at random, each from its seed: two thousand, or a hundred thousand with
//! `PARACHRON_LONG=1`. A workload writes a time stamp whenever it runs, and the model knows
//! the truth: what the clock is off by.
//!
//! A machine that was frozen before its snapshot writes no stamp that is off by more than
//! the bound, unless the gate reports that its limit had passed. One that was not frozen
//! writes wrong stamps only until the daemon's next look. Nothing stays frozen.

use keeper::{Gate, GateAction, GateOpening, KeptBound};
use pvclock::units::OffsetBound;
use test_size::size;

use crate::never_worse::random::Random;

const MS: u64 = 1_000_000;
const BOUND_NS: u64 = 10 * MS;
const LIMIT_NS: u64 = 2_000 * MS;

/// The gate's longest look: one such pause counts of the limit.
const LOOK_NS: u64 = 100 * MS;

/// A machine, and what its daemon knows of the clock.
struct Guest {
    random: Random,
    gate: Gate,
    is_frozen: bool,
    now_ns: u64,
    /// What the clock is off by.
    off_ns: u64,
    known: KeptBound,
    /// Its daemon finds out that it was restored: by a marker, by the host's clock, or not
    /// at all before it asks its servers.
    notices: Notices,
    /// When a measurement arrives.
    reply_ns: Option<u64>,
    wrong_stamps: u64,
    overdue: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Notices {
    Nothing,
    ByMarker,
    ByHostsClock,
}

fn measured(at_monotonic_ns: u64, bound_ns: u64) -> KeptBound {
    KeptBound::Within {
        offset: OffsetBound { offset_ns: 0, bound_ns, at_monotonic_ns },
        growth_ppb: 0,
        frequency_ppb: 0,
        is_free_running: false,
    }
}

impl Guest {
    fn new(seed: u64) -> Self {
        Self {
            random: Random::new(seed),
            gate: Gate::new(BOUND_NS, LIMIT_NS),
            is_frozen: false,
            now_ns: 1_000_000 * MS,
            off_ns: 0,
            known: measured(0, MS),
            notices: Notices::Nothing,
            reply_ns: None,
            wrong_stamps: 0,
            overdue: 0,
        }
    }

    fn carry_out(&mut self, action: Option<GateAction>) {
        match action {
            Some(GateAction::Close(_)) => self.is_frozen = true,
            Some(GateAction::Open(why)) => {
                self.is_frozen = false;
                self.overdue += u64::from(why == GateOpening::Limit);
            }
            Some(GateAction::Measure) => self.ask(),
            Some(GateAction::Renew) | None => {}
        }
    }

    /// All sources are asked; one in ten rounds is lost, and one in twenty is too late.
    fn ask(&mut self) {
        self.known = KeptBound::Disrupted;
        let late_ns = if self.random.one_in(20) { 3 * LIMIT_NS } else { 300 * MS };
        self.reply_ns = (!self.random.one_in(10)).then(|| self.now_ns + self.random.below(late_ns));
    }

    fn is_known(&self) -> bool {
        self.known.error_ns(self.now_ns).is_some_and(|error_ns| error_ns <= BOUND_NS)
    }

    /// The workload runs until the next look, if it may.
    fn run(&mut self, ns: u64) {
        self.now_ns += ns;
        if !self.is_frozen && self.off_ns > BOUND_NS {
            self.wrong_stamps += 1;
        }
    }

    fn look(&mut self) {
        match std::mem::replace(&mut self.notices, Notices::Nothing) {
            Notices::Nothing => {}
            Notices::ByMarker => {
                let action = self.gate.disrupt(self.now_ns);
                self.carry_out(Some(action));
                // The keeper classifies it in a later look.
                self.notices = Notices::ByHostsClock;
            }
            Notices::ByHostsClock => self.ask(),
        }
        if self.reply_ns.is_some_and(|reply_ns| reply_ns <= self.now_ns) {
            self.reply_ns = None;
            self.off_ns = self.random.below(BOUND_NS / 2);
            let error_ns = self.off_ns + self.random.below(BOUND_NS);
            self.known = measured(self.now_ns, error_ns);
        } else if self.reply_ns.is_none() && !self.is_known() {
            self.ask();
        }
        let action = self.gate.follow(self.now_ns, self.known);
        self.carry_out(action);
    }

    /// A pause, by which the clock is behind; CLOCK_MONOTONIC may count it.
    fn restore(&mut self, notices: Notices) {
        if self.random.one_in(2) {
            self.now_ns += self.random.below(3_600_000) * MS;
        }
        self.off_ns = self.random.below(1 << 50);
        self.notices = notices;
        self.reply_ns = None;
    }

    fn step(&mut self) {
        let ns = self.random.below(10) * MS;
        self.run(ns);
        self.look();
    }

    /// Until it is open and right; how long that took.
    fn settle(&mut self, seed: u64) -> u64 {
        let begun_ns = self.now_ns;
        let mut steps = 0;
        while self.is_frozen || self.off_ns > BOUND_NS || self.notices != Notices::Nothing {
            self.step();
            steps += 1;
            assert!(steps < 20_000, "seed {seed}: frozen {} after all looks", self.is_frozen);
        }
        self.now_ns - begun_ns
    }
}

#[test]
fn a_machine_frozen_before_its_snapshot_writes_no_wrong_stamp() {
    let mut opened_right = 0_u32;
    let restores = size(2_000, 100_000);
    for seed in 0..restores {
        let mut guest = Guest::new(seed);
        let action = guest.gate.request_freeze(guest.now_ns);
        guest.carry_out(Some(action));
        for _ in 0..guest.random.below(40) {
            guest.step();
        }
        let notices = match guest.random.below(3) {
            0 => Notices::Nothing,
            1 => Notices::ByMarker,
            _ => Notices::ByHostsClock,
        };
        guest.restore(notices);
        // A hook of the snapshot tool asks for the thaw, or none does.
        let thaw_in = if guest.random.one_in(2) { guest.random.below(100) } else { u64::MAX };
        let begun_ns = guest.now_ns;
        for _ in 0..thaw_in.min(400) {
            guest.step();
        }
        if thaw_in != u64::MAX {
            let action = guest.gate.request_thaw(guest.now_ns);
            guest.carry_out(action);
        }
        while guest.is_frozen {
            guest.step();
            let held_ns = guest.now_ns - begun_ns;
            assert!(held_ns <= 3 * LIMIT_NS + LOOK_NS, "seed {seed}: held {held_ns} ns");
        }
        if guest.overdue == 0 {
            guest.settle(seed);
            assert_eq!(guest.wrong_stamps, 0, "seed {seed}, noticed {notices:?}");
            opened_right += 1;
        }
    }
    // Nine in ten rounds of measurements arrive: a gate that always fails open is caught.
    assert!(u64::from(opened_right) * 10 > restores * 8, "{opened_right} of {restores}");
}

#[test]
fn a_machine_that_was_not_frozen_writes_wrong_stamps_until_the_next_look_alone() {
    for seed in 0..size(2_000, 100_000) {
        let mut guest = Guest::new(seed);
        let notices =
            if guest.random.one_in(2) { Notices::ByMarker } else { Notices::ByHostsClock };
        guest.restore(notices);
        guest.step();
        let of_the_look = std::mem::take(&mut guest.wrong_stamps);
        assert!(of_the_look <= 1, "seed {seed}");
        while guest.is_frozen {
            guest.step();
        }
        if guest.overdue == 0 {
            assert_eq!(guest.wrong_stamps, 0, "seed {seed}, noticed {notices:?}");
        }
    }
}
