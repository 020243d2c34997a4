//! Progress bars on long work: on a terminal's standard error, else nowhere.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Bar, then what is being done; redrawn ten times a second at most.
const TEMPLATE: &str = "{bar:30} {percent:>3} %  {wide_msg}";

/// A bar that steps through `steps` pieces of work; gone when dropped.
pub(crate) struct Progress(ProgressBar);

impl Progress {
    /// A bar at its start.
    pub(crate) fn new(steps: u64) -> Self {
        let target = ProgressDrawTarget::stderr_with_hz(10);
        let bar = ProgressBar::with_draw_target(Some(steps), target);
        if let Ok(style) = ProgressStyle::with_template(TEMPLATE) {
            bar.set_style(style.progress_chars("━╸ "));
        }
        bar.tick();
        Self(bar)
    }

    /// Says what is being done now.
    pub(crate) fn doing(&self, what: &str) {
        self.0.set_message(super::printable(what));
    }

    /// One more step is done.
    pub(crate) fn step(&self) {
        self.0.inc(1);
    }

    /// Takes the bar away; what comes next is printed on a clean line.
    pub(crate) fn finish(&self) {
        self.0.finish_and_clear();
    }

    /// How long the work has taken so far.
    pub(crate) fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.finish();
    }
}
