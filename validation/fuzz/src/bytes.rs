//! Foreign bytes as the operands of a program.

/// What is left of them. When they run out, there are only zeros.
#[derive(Debug, Clone)]
pub(crate) struct Bytes<'a>(pub(crate) &'a [u8]);

impl Bytes<'_> {
    /// The next, unless they ran out.
    pub(crate) fn next(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    /// The next `count`.
    pub(crate) fn take(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.next().unwrap_or(0)).collect()
    }

    /// The next `count` as a number, the lowest first, as far as they fit.
    pub(crate) fn number(&mut self, count: usize) -> u64 {
        self.take(count).iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte))
    }
}
