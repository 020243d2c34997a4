//! A document with worked examples.

use super::arithmetic::evaluate;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Document(&'static str);

impl Document {
    pub(crate) const fn of(text: &'static str) -> Self {
        Self(text)
    }

    pub(crate) fn states(self, what: &str) {
        assert!(self.0.contains(what), "the document does not state {what}");
    }

    /// Does each sum that is shown again; how many there are.
    pub(crate) fn check_sums(self) -> usize {
        let mut lines = self.0.lines();
        let mut sums = 0;
        while let Some(line) = lines.next() {
            let Some(sum) = line.strip_prefix("$ bc <<< '") else { continue };
            let sum = sum.strip_suffix('\'').unwrap();
            assert_eq!(evaluate(sum).to_string(), lines.next().unwrap(), "{sum}");
            sums += 1;
        }
        sums
    }

    /// The page shown in bytes.
    pub(crate) fn bytes<const SIZE: usize>(self) -> [u8; SIZE] {
        let mut bytes = Vec::new();
        for line in self.0.lines() {
            let Some((offset, row)) = line.split_once("  ") else { continue };
            if offset.len() == 2 && usize::from_str_radix(offset, 16) == Ok(bytes.len()) {
                bytes.extend(row.split(' ').map(|byte| u8::from_str_radix(byte, 16).unwrap()));
            }
        }
        bytes.try_into().unwrap()
    }
}
