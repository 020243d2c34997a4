//! How each disruption changes the guest's clocks, measured from outside: the
//! reference for what our programs report.

use std::time::Duration;

use super::channel::now_ns;
use super::session::{Gap, Session};
use super::ticks::{self, CLOCKS, seconds};
use crate::checks::Check;

/// How long ticks are collected before and after.
const SAMPLING: Duration = Duration::from_millis(600);

/// The loss of a clock may differ from the pause by this much, s: the guest
/// runs a little longer after a stop was requested, and its lines are delayed.
const TOLERANCE_S: f64 = 0.25;

/// The RTC counts whole seconds.
const RTC_S: f64 = 1.5;

/// A guest restored in the QEMU that runs it: QEMU lets a TSC only go forward
/// (cpu_get_ticks in softmmu/cpu-timers.c), unlike any other restore.
pub(super) const IN_SAME_QEMU: &str = "snapshot-save, snapshot-load";

/// How one disruption changed the clocks.
#[derive(Debug, PartialEq)]
pub(crate) struct Effect {
    /// The disruption.
    pub(crate) disruption: String,
    /// How long the guest did not run, s.
    pub(crate) pause_s: f64,
    /// How much each clock of [`CLOCKS`] fell behind this machine's time, s.
    pub(crate) lost_s: [f64; 4],
    /// How much the RTC fell behind, s.
    pub(crate) rtc_lost_s: f64,
}

/// Disrupts a guest, and measures the effect.
pub(super) fn measure(
    session: &mut Session,
    disruption: &str,
    disrupt: impl FnOnce(&mut Session) -> Result<Gap, String>,
) -> Result<(Effect, Gap), String> {
    let (before, rtc_before_s) = sample(session)?;
    let gap = disrupt(session)?;
    let (after, rtc_after_s) = sample(session)?;
    let lost_s = std::array::from_fn(|clock| before[clock] - after[clock]);
    let rtc_lost_s = rtc_before_s - rtc_after_s;
    let disruption = disruption.to_owned();
    let pause_s = gap.pause_s();
    Ok((Effect { disruption, pause_s, lost_s, rtc_lost_s }, gap))
}

/// How far each clock and the RTC are ahead of this machine's time, s.
fn sample(session: &mut Session) -> Result<([f64; 4], f64), String> {
    let ticks = session.ticks_for(SAMPLING);
    let mut ahead_s = [0.0; 4];
    for (clock, ahead_s) in ahead_s.iter_mut().enumerate() {
        *ahead_s = ticks::ahead_s(&ticks, clock).ok_or("the guest printed no clock readings")?;
    }
    let rtc = session.execute("rtc", "cat $RTC/since_epoch")?;
    let rtc_s: f64 = rtc.parse().map_err(|error| format!("the RTC reads {rtc:?}: {error}"))?;
    Ok((ahead_s, rtc_s - seconds(now_ns())))
}

/// While a guest does not run, all of its clocks stop except the RTC.
pub(super) fn checks(effects: &[Effect]) -> Vec<Check> {
    effects.iter().filter(|effect| effect.disruption != IN_SAME_QEMU).map(check).collect()
}

fn check(effect: &Effect) -> Check {
    let Effect { disruption, pause_s, lost_s, rtc_lost_s } = effect;
    let what = format!("{disruption}: every clock falls behind by the pause, the RTC does not");
    let lost: Vec<String> =
        CLOCKS.iter().zip(lost_s).map(|(clock, lost_s)| format!("{clock} {lost_s:.3} s")).collect();
    let found =
        format!("paused for {pause_s:.3} s: {} behind, the RTC {rtc_lost_s:.1} s", lost.join(", "));
    let passed = lost_s.iter().all(|lost_s| (lost_s - pause_s).abs() <= TOLERANCE_S)
        && rtc_lost_s.abs() <= RTC_S;
    Check::new(what, found, passed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_runs_or_an_rtc_that_stops_fails_the_check() {
        let effect = |lost_s, rtc_lost_s| Effect {
            disruption: "stop".to_owned(),
            pause_s: 5.0,
            lost_s,
            rtc_lost_s,
        };
        let passed = |lost_s, rtc_lost_s| checks(&[effect(lost_s, rtc_lost_s)])[0].passed;
        assert!(passed([5.0, 5.1, 4.9, 5.0], -0.9));
        assert!(!passed([5.0, 0.1, 4.9, 5.0], -0.9));
        assert!(!passed([5.0; 4], 5.0));
        let own = Effect { disruption: IN_SAME_QEMU.to_owned(), ..effect([0.5; 4], 0.0) };
        assert!(checks(&[own]).is_empty());
    }
}
