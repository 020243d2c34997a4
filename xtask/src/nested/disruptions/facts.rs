//! What each disruption does to the guest's clocks, without any program's
//! opinion: the ground on which those are judged.

use std::thread;
use std::time::Duration;

use super::line::now_ns;
use super::session::{Gap, Session};
use super::ticks::{self, CLOCKS, seconds};
use crate::nested::checks::Check;

/// How long ticks are gathered before and after.
const LOOK: Duration = Duration::from_millis(600);

/// What a clock lost may differ by so much from the time away, s: the guest
/// runs on a little after a stop was asked for, and is heard late.
const APART_S: f64 = 0.25;

/// The RTC counts whole seconds.
const RTC_S: f64 = 1.5;

/// A guest put back while its QEMU runs on: QEMU lets a TSC only go forward
/// (cpu_get_ticks in softmmu/cpu-timers.c), as no restored machine has it.
pub(super) const IN_ITS_OWN_QEMU: &str = "snapshot-save, snapshot-load";

/// What one disruption did.
#[derive(Debug, PartialEq)]
pub(crate) struct Fact {
    /// The disruption.
    pub(crate) disruption: String,
    /// How much less the guest lived than this machine, s.
    pub(crate) away_s: f64,
    /// How much each clock of [`CLOCKS`] fell behind this machine's time, s.
    pub(crate) lost_s: [f64; 4],
    /// And the RTC.
    pub(crate) rtc_lost_s: f64,
}

/// Disturbs a guest, and measures what that does.
pub(super) fn fact(
    session: &mut Session,
    disruption: &str,
    disrupt: impl FnOnce(&mut Session) -> Result<Gap, String>,
) -> Result<(Fact, Gap), String> {
    let (before, rtc_before_s) = look(session)?;
    let gap = disrupt(session)?;
    let (after, rtc_after_s) = look(session)?;
    let lost_s = std::array::from_fn(|clock| before[clock] - after[clock]);
    let rtc_lost_s = rtc_before_s - rtc_after_s;
    let disruption = disruption.to_owned();
    let away_s = seconds(gap.resumed_ns - gap.stopped_ns);
    Ok((Fact { disruption, away_s, lost_s, rtc_lost_s }, gap))
}

/// How far each clock and the RTC are ahead of this machine's time, s.
fn look(session: &mut Session) -> Result<([f64; 4], f64), String> {
    let from_ns = now_ns();
    thread::sleep(LOOK);
    let ticks = ticks::between(session.telling.heard(), from_ns, now_ns());
    let mut ahead_s = [0.0; 4];
    for (clock, ahead_s) in ahead_s.iter_mut().enumerate() {
        *ahead_s = ticks::ahead_s(&ticks, clock).ok_or("the guest told no time")?;
    }
    let rtc = session.ask("rtc", "cat $RTC/since_epoch")?;
    let rtc_s: f64 = rtc.parse().map_err(|error| format!("the RTC says {rtc:?}: {error}"))?;
    Ok((ahead_s, rtc_s - seconds(now_ns())))
}

/// While a guest is away all of its clocks stop but the RTC.
pub(super) fn checks(facts: &[Fact]) -> Vec<Check> {
    facts.iter().filter(|fact| fact.disruption != IN_ITS_OWN_QEMU).map(check).collect()
}

fn check(fact: &Fact) -> Check {
    let Fact { disruption, away_s, lost_s, rtc_lost_s } = fact;
    let what = format!("{disruption}: every clock falls behind by it, the RTC does not");
    let lost: Vec<String> =
        CLOCKS.iter().zip(lost_s).map(|(clock, lost_s)| format!("{clock} {lost_s:.3} s")).collect();
    let found =
        format!("{away_s:.3} s away: {} behind, the RTC {rtc_lost_s:.1} s", lost.join(", "));
    let holds =
        lost_s.iter().all(|lost_s| (lost_s - away_s).abs() <= APART_S) && rtc_lost_s.abs() <= RTC_S;
    Check { what, found, holds }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_goes_on_or_an_rtc_that_stops_breaks_it() {
        let fact = |lost_s, rtc_lost_s| Fact {
            disruption: "stop".to_owned(),
            away_s: 5.0,
            lost_s,
            rtc_lost_s,
        };
        let holds = |lost_s, rtc_lost_s| checks(&[fact(lost_s, rtc_lost_s)])[0].holds;
        assert!(holds([5.0, 5.1, 4.9, 5.0], -0.9));
        assert!(!holds([5.0, 0.1, 4.9, 5.0], -0.9));
        assert!(!holds([5.0; 4], 5.0));
        let own = Fact { disruption: IN_ITS_OWN_QEMU.to_owned(), ..fact([0.5; 4], 0.0) };
        assert!(checks(&[own]).is_empty());
    }
}
