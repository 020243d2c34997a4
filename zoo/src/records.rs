//! What the guest sends over its second serial port: one record per command.
//!
//! ```text
//! @record NAME STATUS STARTED_S ENDED_S STDOUT_BYTES STDERR_BYTES
//! the bytes of stdout, then those of stderr, then a line feed
//! ```
//!
//! Lengths come before the bytes, so that no output can be mistaken for a
//! heading, and a truncated record is detected.

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
}

/// All complete records; and what is wrong with the bytes after them, if
/// anything is.
pub(crate) fn parse(bytes: &[u8]) -> (Vec<Record>, Option<String>) {
    let mut records = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        match record(bytes, at) {
            Ok((record, end)) => {
                records.push(record);
                at = end;
            }
            Err(error) => return (records, Some(error)),
        }
    }
    (records, None)
}

/// The record that begins at a byte, and where the next one does.
fn record(bytes: &[u8], at: usize) -> Result<(Record, usize), String> {
    let rest = &bytes[at..];
    let line_end = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
    let heading = String::from_utf8_lossy(&rest[..line_end]).into_owned();
    let Some((mut record, stdout_bytes, stderr_bytes)) = parse_heading(&heading) else {
        let found: String = heading.chars().take(80).collect();
        let expected = format!("{HEADING} name status started ended stdout stderr");
        return Err(format!("byte {at}: expected '{expected}', found {found:?}"));
    };
    let body = rest.get(line_end + 1..).unwrap_or_default();
    let expected = stdout_bytes.saturating_add(stderr_bytes);
    // One more: the line feed behind the record.
    if body.len() <= expected {
        let (name, found) = (record.name, body.len());
        return Err(format!("{name}: {expected} bytes announced, {found} received"));
    }
    let (stdout, stderr) = body[..expected].split_at(stdout_bytes);
    record.stdout = String::from_utf8_lossy(stdout).into_owned();
    record.stderr = String::from_utf8_lossy(stderr).into_owned();
    Ok((record, at + line_end + 1 + expected + 1))
}

fn parse_heading(line: &str) -> Option<(Record, usize, usize)> {
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
    };
    let lengths = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    words.next().is_none().then_some((record, lengths.0, lengths.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &str = "@record doctor 0 4.50 9.25 14 0\n{\n@record x 0\n\n\
                       @record clocks 2 9.30 9.31 0 6\nwhy: y\n";

    #[test]
    fn records_are_parsed() {
        let (records, error) = parse(TWO.as_bytes());
        assert_eq!(error, None);
        assert_eq!(records.len(), 2);
        assert_eq!(records[0].name, "doctor");
        assert_eq!(records[0].stdout, "{\n@record x 0\n");
        assert_eq!((records[1].status, records[1].stderr.as_str()), (2, "why: y"));
        assert_eq!((records[0].started_s, records[0].ended_s), (4.5, 9.25));
    }

    #[test]
    fn every_truncation_is_detected_and_loses_only_what_follows() {
        let first = TWO.find("@record clocks").unwrap();
        for cut in 1..TWO.len() {
            let (records, error) = parse(&TWO.as_bytes()[..cut]);
            assert_eq!(records.len(), usize::from(cut >= first), "{cut}");
            assert_eq!(error.is_none(), cut == first, "{cut}");
        }
    }

    #[test]
    fn other_bytes_are_printed() {
        let (records, error) = parse(b"[    0.0] panic\n");
        assert!(records.is_empty());
        assert_eq!(
            error.unwrap(),
            "byte 0: expected '@record name status started ended stdout stderr', found \"[    0.0] panic\""
        );
        let (_, error) = parse(b"@record a 0 1 2 18446744073709551615 1\nabc");
        assert_eq!(error.unwrap(), "a: 18446744073709551615 bytes announced, 3 received");
    }
}
