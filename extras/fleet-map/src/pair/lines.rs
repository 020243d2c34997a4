//! Samples from lines of JSON: a probe or a claim each.

use std::io::{BufRead, Read, Result};

use crate::errormap::{Claim, Probe, Samples};
use serde::Deserialize;

/// A line is no longer.
pub const LONGEST_LINE: usize = 4096;

#[derive(Deserialize)]
#[serde(untagged)]
enum JsonSample {
    Probe(Probe),
    Claim(Claim),
}

/// What became of what was read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SampleTally {
    /// Samples and claims that were taken.
    pub taken: u64,
    /// That were not.
    pub refused: u64,
    /// Why the first was not.
    pub why: Option<String>,
}

impl SampleTally {
    /// Adds the counts of another.
    pub(crate) fn merge(&mut self, other: Self) {
        self.taken += other.taken;
        self.refused += other.refused;
        self.why = self.why.take().or(other.why);
    }

    /// Counts one.
    pub fn count(&mut self, result: std::result::Result<(), String>) {
        match result {
            Ok(()) => self.taken += 1,
            Err(why) => {
                self.refused += 1;
                self.why.get_or_insert(why);
            }
        }
    }
}

/// Adds all lines to the samples; those that are wrong are counted.
///
/// # Errors
/// The input's.
pub fn read(mut input: impl BufRead, samples: &mut Samples) -> Result<SampleTally> {
    let (mut tally, mut line) = (SampleTally::default(), Vec::new());
    for number in 1_u64.. {
        line.clear();
        (&mut input).take(LONGEST_LINE as u64).read_until(b'\n', &mut line)?;
        if line.is_empty() {
            break;
        }
        let is_whole = line.ends_with(b"\n");
        if !is_whole && line.len() == LONGEST_LINE {
            input.skip_until(b'\n')?;
        }
        if line.trim_ascii().is_empty() {
            continue;
        }
        tally.count(add_line(&line, samples).map_err(|why| format!("line {number}: {why}")));
    }
    Ok(tally)
}

fn add_line(line: &[u8], samples: &mut Samples) -> std::result::Result<(), String> {
    let line = serde_json::from_slice(line)
        .map_err(|_| "neither a probe nor a claim, or longer than 4096 bytes".to_owned())?;
    let result = match line {
        JsonSample::Probe(probe) => probe
            .sample()
            .map_err(crate::errormap::Refused::from)
            .and_then(|sample| samples.add(&sample)),
        JsonSample::Claim(claim) => samples.claim(claim),
    };
    result.map_err(|why| why.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn good_lines_are_taken_and_bad_ones_counted() {
        let probe = r#"{"from":"a","to":"b","t1_ns":1,"t2_ns":5,"t3_ns":6,"t4_ns":9}"#;
        let claim = r#"{"node":"a","offset_ns":-3,"bound_ns":9,"at_ns":7}"#;
        let long = "x".repeat(3 * LONGEST_LINE);
        let text = format!("{probe}\n\n{long}\n{claim}\n{{\"from\":\"a\"}}\n{probe}");
        let mut samples = Samples::default();
        let tally = read(text.as_bytes(), &mut samples).unwrap();
        assert_eq!((tally.taken, tally.refused), (3, 2));
        assert!(tally.why.unwrap().starts_with("line 3: "));
        // A clock that was set: less time went by than the reply took.
        let set = probe.replace("\"t4_ns\":9", "\"t4_ns\":1");
        let tally = read(set.as_bytes(), &mut samples).unwrap();
        assert_eq!(tally.why.unwrap(), "line 1: its bounds contradict each other by 1 ns");
    }
}
