//! What the experiments' plots share.

use crate::output::plot::Legend;
use crate::output::plot::canvas::Canvas;

/// What an experiment's figures look like.
pub(super) trait PlotPanel {
    /// Its heading.
    fn heading(&self) -> &str;
    /// What its colours mean.
    fn legend(&self) -> Legend;
    /// Its height without heading and legend.
    fn height(&self) -> i32;
    /// Draws it from `top` down.
    fn draw(&self, canvas: &Canvas, top: i32);
}

/// The values of `all` without repetitions, in order.
pub(super) fn distinct<'r>(all: impl Iterator<Item = &'r str>) -> Vec<&'r str> {
    let mut found = Vec::new();
    for one in all {
        if !found.contains(&one) {
            found.push(one);
        }
    }
    found
}
