//! A line a clock while it is measured, on a terminal's standard error.

use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use inspect::comparison::ClockPairSeries;

use super::text;
use crate::error;

/// Time between updates, at least.
const EACH: Duration = Duration::from_millis(500);

/// An update computes all figures again: it gets a fiftieth of the time at most.
const SHARE: u32 = 50;

/// The lines; none where standard error is no terminal.
pub(super) struct Live {
    bars: MultiProgress,
    lines: Vec<ProgressBar>,
    next: Instant,
}

impl Live {
    pub(super) fn new() -> Self {
        let bars = MultiProgress::with_draw_target(ProgressDrawTarget::stderr());
        Self { bars, lines: Vec::new(), next: Instant::now() }
    }

    /// Prints what cannot wait for the end, above the lines.
    pub(super) fn note(&self, text: &str) {
        self.bars.suspend(|| error::note(text));
    }

    /// Shows the figures so far, if an update is due.
    pub(super) fn show(&mut self, pairs: &[ClockPairSeries], elapsed: Duration) {
        let now = Instant::now();
        if self.bars.is_hidden() || now < self.next {
            return;
        }
        while self.lines.len() < pairs.len() {
            let line = self.bars.add(ProgressBar::new_spinner());
            if let Ok(style) = ProgressStyle::with_template("{wide_msg}") {
                line.set_style(style);
            }
            self.lines.push(line);
        }
        for (pair, line) in pairs.iter().zip(&self.lines) {
            if let Some(drift) = pair.series.drift() {
                line.set_message(text::live(pair.clock, &pair.reference, &drift, elapsed));
                line.tick();
            }
        }
        self.next = now + EACH.max(now.elapsed() * SHARE);
    }
}

impl Drop for Live {
    /// What comes next is printed on a clean line.
    fn drop(&mut self) {
        self.lines.iter().for_each(ProgressBar::finish_and_clear);
    }
}
