//! What a machine sends over its line: one record per command, among whatever
//! else its kernel prints there.
//!
//! ```text
//! @record NAME STATUS STARTED_S ENDED_S STDOUT_BYTES STDERR_BYTES PACKED_BYTES
//! the bytes of stdout, then those of stderr, packed by gzip, then a line feed
//! ```
//!
//! Lengths come before the bytes, so that no output can be mistaken for a
//! heading, and a truncated record is detected.

use std::io::Read as _;

use flate2::read::GzDecoder;

/// Output beyond this is none of ours.
const LONGEST: usize = 16 << 20;

/// The first word of each record.
const HEADING: &str = "@record";

/// One command and its output.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Record {
    /// Its name in the list of commands.
    pub(crate) name: String,
    /// Its exit code.
    pub(crate) status: i32,
    /// When it started, by the guest's clock since its boot, s.
    pub(crate) started_s: f64,
    /// When it ended, by the same clock, s.
    pub(crate) ended_s: f64,
    /// Its output.
    pub(crate) stdout: String,
    /// Its errors.
    pub(crate) stderr: String,
    /// Its output did not arrive as it was sent.
    pub(crate) is_damaged: bool,
}

/// Whether a record has begun, and is not complete.
pub(crate) fn has_begun(bytes: &[u8]) -> bool {
    let lines = bytes.split_inclusive(|byte| *byte == b'\n');
    let ended = lines.filter(|line| line.ends_with(b"\n") && line.starts_with(HEADING.as_bytes()));
    let mut lines = ended.map(|line| String::from_utf8_lossy(line).into_owned());
    first(bytes).is_none() && lines.any(|line| parse_heading(line.trim_end()).is_some())
}

/// The first complete record among whatever else there is, and where the rest
/// begins.
pub(crate) fn first(bytes: &[u8]) -> Option<(Record, usize)> {
    let begins = |at: usize| at == 0 || bytes[at - 1] == b'\n';
    let found = bytes.windows(HEADING.len()).enumerate();
    let found = found.filter(|(at, window)| *window == HEADING.as_bytes() && begins(*at));
    found.map(|(at, _)| at).find_map(|at| record(bytes, at))
}

/// The record that begins at a byte, and where the rest does; none if no whole
/// one is there.
fn record(bytes: &[u8], at: usize) -> Option<(Record, usize)> {
    let rest = &bytes[at..];
    let line_end = rest.iter().position(|byte| *byte == b'\n')?;
    let heading = String::from_utf8_lossy(&rest[..line_end]).into_owned();
    let (mut record, [stdout_bytes, stderr_bytes, packed_bytes]) =
        parse_heading(heading.trim_end())?;
    let end = (line_end + 1).checked_add(packed_bytes)?;
    // One more: the line feed behind the record.
    let packed = rest.get(line_end + 1..end).filter(|_| rest.len() > end)?;
    match unpacked(packed, stdout_bytes, stderr_bytes) {
        Ok(both) => (record.stdout, record.stderr) = both,
        Err(why) => {
            record.is_damaged = true;
            record.stderr = format!("its output is damaged: {why}");
        }
    }
    Some((record, at + end + 1))
}

/// The output and the errors.
fn unpacked(packed: &[u8], stdout: usize, stderr: usize) -> Result<(String, String), String> {
    let length = stdout.checked_add(stderr).filter(|length| *length <= LONGEST);
    let length = length.ok_or_else(|| format!("{stdout} and {stderr} bytes announced"))?;
    let mut bytes = Vec::new();
    let mut decoder = GzDecoder::new(packed).take(LONGEST as u64);
    decoder.read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    if bytes.len() != length {
        return Err(format!("{length} bytes announced, {} received", bytes.len()));
    }
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    Ok((text(&bytes[..stdout]), text(&bytes[stdout..])))
}

fn parse_heading(line: &str) -> Option<(Record, [usize; 3])> {
    let mut words = line.split(' ');
    if words.next()? != HEADING {
        return None;
    }
    let record = Record {
        name: words.next()?.to_owned(),
        status: words.next()?.parse().ok()?,
        started_s: words.next()?.parse().ok()?,
        ended_s: words.next()?.parse().ok()?,
        stdout: String::new(),
        stderr: String::new(),
        is_damaged: false,
    };
    let mut lengths = [0; 3];
    for length in &mut lengths {
        *length = words.next()?.parse().ok()?;
    }
    words.next().is_none().then_some((record, lengths))
}

/// A record as a machine sends it.
#[cfg(test)]
pub(crate) fn sent(heading: &str, stdout: &str, stderr: &str) -> Vec<u8> {
    use std::io::Write as _;

    use flate2::{Compression, write::GzEncoder};

    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(format!("{stdout}{stderr}").as_bytes()).unwrap();
    let packed = packed.finish().unwrap();
    let lengths = format!("{} {} {}", stdout.len(), stderr.len(), packed.len());
    let mut bytes = format!("{HEADING} {heading} {lengths}\n").into_bytes();
    bytes.extend(packed);
    bytes.push(b'\n');
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two() -> [Vec<u8>; 2] {
        [
            sent("doctor 0 4.50 9.25", "{\n@record x 0\n", ""),
            sent("clocks 2 9.30 9.31", "", "why: y"),
        ]
    }

    fn all(mut bytes: &[u8]) -> Vec<Record> {
        let mut records = Vec::new();
        while let Some((record, end)) = first(bytes) {
            records.push(record);
            bytes = &bytes[end..];
        }
        records
    }

    #[test]
    fn records_are_parsed() {
        let records = all(&two().concat());
        assert_eq!(records.len(), 2);
        assert_eq!(records[0].name, "doctor");
        assert_eq!(records[0].stdout, "{\n@record x 0\n");
        assert_eq!((records[1].status, records[1].stderr.as_str()), (2, "why: y"));
        assert_eq!((records[0].started_s, records[0].ended_s), (4.5, 9.25));
    }

    #[test]
    fn a_truncated_record_is_awaited() {
        let (second, both) = (two()[0].len(), two().concat());
        for cut in 1..both.len() {
            assert_eq!(all(&both[..cut]).len(), usize::from(cut >= second), "{cut}");
        }
    }

    #[test]
    fn other_bytes_are_passed_over_and_damage_is_named() {
        let noise = b"[ 0.0] hello @record x\r\n@record of what\n".to_vec();
        let bytes = [noise, two()[0].clone(), b"[ 2.0] more\n".to_vec(), two()[1].clone()].concat();
        assert_eq!(all(&bytes).len(), 2);
        assert!(all(b"@record a 0 1 2 1 1 18446744073709551615\nabc").is_empty());
        assert!(all(b"").is_empty());
        let damaged = &all(b"@record a 0 1 2 3 4 5\n12345\n")[0];
        assert!(damaged.is_damaged && damaged.stderr.contains("damaged"), "{damaged:?}");
        assert!(has_begun(b"x\n@record a 0 1 2 3 4 5\n123"));
        assert!(!has_begun(b"@record a 0 1 2 3 4 5\n12345\n") && !has_begun(b"@record a 0 1"));
    }
}
