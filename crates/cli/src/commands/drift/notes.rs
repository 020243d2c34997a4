//! What the figures of all clocks together show, in sentences.

use inspect::comparison::{Note, Seems};
use instruments::drift::Refused;
use instruments::figures::{signed, time};

use crate::output::number_of;

/// The sentence of a note.
pub(super) fn sentence(note: &Note) -> String {
    match note {
        Note::ReferenceStepped { reference, clocks, by_ns, at_s } => format!(
            "All {clocks} clocks stepped together against {reference} at {at_s:.1} s: the \
             reference stepped by {}, not the clocks.",
            signed(*by_ns, time)
        ),
        Note::ClockStepped { clock, by_ns, at_s, or_reference } => {
            let (moved, the_other) =
                if *by_ns < 0.0 { ("was set back", "forward") } else { ("went forward", "back") };
            let or_it = or_reference.as_ref().map(|name| format!(", or {name} {the_other}"));
            let or_it = or_it.unwrap_or_default();
            format!("{clock} {moved} by {} at {at_s:.1} s{or_it}.", time(by_ns.abs()))
        }
        Note::StoodStill(stood_still) => format!("{stood_still}."),
        Note::LeftOut { clock, reference, readings, why } => {
            let why = match why {
                Refused::BeforeStart { by_ns } => {
                    format!("the reference went back, to {} before the start", time(*by_ns as f64))
                }
                Refused::WentBack { by_ns } => {
                    format!("a clock went back by {} while it was compared", time(*by_ns as f64))
                }
            };
            let readings = number_of(*readings, "reading");
            format!("{clock} against {reference}: {readings} left out: {why}.")
        }
        Note::Contradiction(references) => {
            let more = if *references < 3 { "with three or more" } else { "with others too" };
            format!(
                "The {references} references contradict each other, and no majority shows which \
                 is wrong: compare {more}."
            )
        }
        Note::Outvoted(references) => format!(
            "The other references outvote {}, a falseticker; its figures are not checked against \
             the limits.",
            references.join(", ")
        ),
        Note::ReferenceScale { reference, off_ns, seems } => {
            format!("{reference} is {} {}.", time(*off_ns), relation(seems))
        }
        Note::TooShort { reference, over_s, within_ppm, needed_min } => format!(
            "rtc against {reference}: ± {within_ppm:.0} ppm after {over_s:.0} s, too short for a \
             clock that is read once a second: try --duration {needed_min}m."
        ),
        Note::ClockScale { reference, off_ns } => format!(
            "phc is {} ahead of {reference}, the difference between TAI and UTC: it appears to \
             count TAI, like a network card's clock that ptp4l sets.",
            time(*off_ns)
        ),
        // One that this program does not know yet.
        other => format!("{other:?}"),
    }
}

fn relation(seems: &Seems) -> String {
    match seems {
        Seems::Tai => "ahead of realtime, the difference between TAI and UTC: it counts TAI, or \
                       realtime is wrong by that much"
            .into(),
        Seems::UnspecifiedTai { device, scale } => format!(
            "ahead of realtime, the difference between TAI and UTC: if it counts TAI, like a \
             network card's clock that ptp4l sets, `--phc {device}{scale}` subtracts that"
        ),
        Seems::Utc => "behind realtime, the difference between TAI and UTC: it counts UTC and was \
                       taken to count TAI, or realtime is wrong by that much"
            .into(),
        _ => {
            "behind realtime, the difference between TAI and UTC: one of the two is wrong by that \
              much"
                .into()
        }
    }
}

#[cfg(test)]
mod tests;
