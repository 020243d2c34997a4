//! Progress of long work: a bar on standard error, on a terminal only.

use std::cell::RefCell;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// The bar, then the current step.
const TEMPLATE: &str = "{bar:30} {percent:>3} %  {wide_msg}";

/// At most this often: drawing takes time from the measurement.
const DRAWS_PER_S: u8 = 10;

/// A bar over work of known duration; cleared when dropped.
pub(crate) struct TerminalProgress {
    bar: ProgressBar,
    expected: Duration,
    doing: RefCell<String>,
}

impl TerminalProgress {
    /// A bar at its start, over work that should take `expected`.
    pub(crate) fn new(expected: Duration) -> Self {
        let target = ProgressDrawTarget::stderr_with_hz(DRAWS_PER_S);
        let bar = ProgressBar::with_draw_target(Some(milliseconds(expected)), target);
        if let Ok(style) = ProgressStyle::with_template(TEMPLATE) {
            bar.set_style(style.progress_chars("━╸ "));
        }
        bar.tick();
        Self { bar, expected, doing: RefCell::default() }
    }

    /// Shows the current step, and the time elapsed; cheap enough to call a
    /// thousand times a second.
    pub(crate) fn doing(&self, what: &str) {
        self.show_at(self.bar.elapsed(), what);
    }

    /// The same, for work that knows its progress: the position after `done`.
    pub(crate) fn show_at(&self, done: Duration, what: &str) {
        if *self.doing.borrow() != what {
            what.clone_into(&mut self.doing.borrow_mut());
            self.bar.set_message(super::printable(what));
        }
        self.bar.set_position(milliseconds(done.min(self.expected)));
    }
}

impl Drop for TerminalProgress {
    /// Clears the line for the output that follows.
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
