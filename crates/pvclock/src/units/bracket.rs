//! One clock's reading, between two of another's.

/// One clock's reading, taken between two of another's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bracket {
    /// The outer clock before.
    pub before: u64,
    /// The inner clock.
    pub inner: u64,
    /// The outer clock after.
    pub after: u64,
}

impl Bracket {
    /// How far the outer clock went meanwhile; `None` where it went back,
    /// and so bounds nothing.
    pub fn width(&self) -> Option<u64> {
        self.after.checked_sub(self.before)
    }

    /// The first of `tries` brackets that is at most `enough` wide, else the
    /// tightest of them: an interrupt between the reads widens a bracket, and
    /// the next one is taken without. `None` when `take` yields none, or none
    /// whose outer clock kept its order.
    pub fn tightest(
        tries: u32,
        enough: u64,
        mut take: impl FnMut() -> Option<Self>,
    ) -> Option<Self> {
        let mut best: Option<(u64, Self)> = None;
        for _ in 0..tries {
            let bracket = take()?;
            let Some(width) = bracket.width() else { continue };
            if best.is_none_or(|(least, _)| width < least) {
                best = Some((width, bracket));
            }
            if width <= enough {
                break;
            }
        }
        best.map(|(_, bracket)| bracket)
    }
}
