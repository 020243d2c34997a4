//! Progress on long work: a bar on a terminal's standard error, else nothing.

use std::cell::RefCell;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Bar, then what is being done.
const TEMPLATE: &str = "{bar:30} {percent:>3} %  {wide_msg}";

/// Redrawn this often at most: drawing takes time from what is measured.
const DRAWS_PER_S: u8 = 10;

/// A bar over work of known length in time; gone when dropped.
pub(crate) struct Progress {
    bar: ProgressBar,
    expected: Duration,
    doing: RefCell<String>,
}

impl Progress {
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

    /// Says what is being done now, and moves the bar to where the time is;
    /// cheap enough to be said a thousand times a second.
    pub(crate) fn doing(&self, what: &str) {
        self.at(self.bar.elapsed(), what);
    }

    /// The same, over work that knows by itself how far it is: as far as it
    /// should be after `done`.
    pub(crate) fn at(&self, done: Duration, what: &str) {
        if *self.doing.borrow() != what {
            what.clone_into(&mut self.doing.borrow_mut());
            self.bar.set_message(super::printable(what));
        }
        self.bar.set_position(milliseconds(done.min(self.expected)));
    }
}

impl Drop for Progress {
    /// What comes next is printed on a clean line.
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
