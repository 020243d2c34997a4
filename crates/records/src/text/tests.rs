use proptest::prelude::*;

use super::*;
use crate::record::Outside;

fn records(bytes: &[u8]) -> Result<(WholeLines, Vec<Record>), Damage> {
    let mut records = Vec::new();
    match read(bytes, |record| records.push(record)) {
        Ok(whole) => Ok((whole, records)),
        Err(TextError::Damage(damage)) => Err(damage),
        Err(TextError::Io(error)) => panic!("memory does not fail: {error}"),
    }
}

fn file(form: LineForm, records: &[Record]) -> String {
    let lines = records.iter().map(|record| form.line(record).expect("fit names"));
    [form.opening()].into_iter().chain(lines).collect()
}

fn any_record() -> impl Strategy<Value = Record> {
    let name = "[ -!#-+\\--~äß]{0,20}";
    let outside = prop_oneof![Just(Outside::Clock), Just(Outside::Reference)];
    (name, name, name, outside, any::<[u64; 4]>()).prop_map(
        |(boot, reference, clock, outside, times)| {
            Record::of_columns([&boot, &reference, &clock, outside.name()], times).unwrap()
        },
    )
}

proptest! {
    #[test]
    fn what_is_written_is_read(records_in in prop::collection::vec(any_record(), 0..20)) {
        for form in [LineForm::Csv, LineForm::Json] {
            let text = file(form, &records_in);
            let (whole, read) = records(text.as_bytes()).unwrap();
            prop_assert_eq!(&read, &records_in);
            prop_assert_eq!(whole, WholeLines { form, bytes: text.len() as u64, cut_bytes: 0, bad: BadLines::default() });
        }
    }

    /// Cut anywhere, a file has the comparisons of its whole lines, or is none.
    #[test]
    fn what_is_cut_is_left_out(
        records_in in prop::collection::vec(any_record(), 1..8),
        share in 0.0..1.0,
    ) {
        for form in [LineForm::Csv, LineForm::Json] {
            let text = file(form, &records_in);
            let bytes = &text.as_bytes()[..(share * text.len() as f64) as usize];
            let Ok((whole, read)) = records(bytes) else {
                prop_assert!(bytes.len() < form.opening().len());
                continue;
            };
            prop_assert_eq!(&read[..], &records_in[..read.len()]);
            prop_assert_eq!(whole.bytes + whole.cut_bytes, bytes.len() as u64);
            let kept = &bytes[..whole.bytes as usize];
            prop_assert!(kept.ends_with(b"\n") && kept.len() >= form.opening().len());
        }
    }

    /// Any bytes: an error, or lines that say exactly what was read.
    #[test]
    fn any_bytes_are_refused_or_meant(form in 0..3usize, tail in any::<Vec<u8>>(), noise in any::<(u16, u8)>()) {
        let one = [LineForm::Csv, LineForm::Json].map(|form| file(form, &[sample(1), sample(2)]));
        let mut bytes = one.get(form).cloned().unwrap_or_default().into_bytes();
        if let Some(byte) = bytes.get_mut(usize::from(noise.0) % 400) {
            *byte = noise.1;
        }
        bytes.extend(tail);
        if let Ok((whole, read)) = records(&bytes) {
            if whole.bad.count > 0 {
                prop_assert!(whole.bad.count < read.len() as u64);
                return Ok(());
            }
            let again = file(whole.form, &read);
            let kept = &bytes[..whole.bytes as usize];
            match whole.form {
                LineForm::Csv => prop_assert_eq!(again.as_bytes(), kept),
                LineForm::Json => prop_assert_eq!(records(again.as_bytes()).unwrap().1, read),
            }
        }
    }
}

fn sample(n: u64) -> Record {
    let times = [n, n + 90, u64::MAX - 2, u64::MAX - 1];
    Record::of_columns(["a", "ntp [::1]:123", "monotonic", "clock"], times).unwrap()
}

#[test]
fn what_is_no_record_says_what_was_found() {
    let damage = |bytes: &str| records(bytes.as_bytes()).unwrap_err().to_string();
    assert!(
        damage("").starts_with("is not a record of parachron drift: expected"),
        "{}",
        damage("")
    );
    assert!(damage("time,offset\n").ends_with("found \"time,offset\""));
    assert!(damage("# parachron drift 2\nx\n").starts_with("has another version: expected"));
    assert!(damage("{\"parachron_drift\":2}\n").starts_with("has another version"));
    assert!(damage("PAR1drift\u{1}").contains("found \"PAR1drift"));
    assert!(damage(JSON_MARK).contains("expected more than the first line"));
    let heading = LineForm::Csv.opening();
    assert!(damage(heading.trim_end()).contains("is not a record"));
    assert!(damage(&format!("{CSV_MARK}\nboot\n")).ends_with("found \"boot\""));
    assert_eq!(
        damage(&format!("{heading}a,raw,tsc,clock,1,2,3\n")),
        "line 3 is not a comparison: \"a,raw,tsc,clock,1,2,3\""
    );
    // A number has one form; a line end is one.
    for line in
        ["a,raw,tsc,clock,1,2,3,+4", "a,raw,tsc,clock,1,2,3,04", "a,raw,tsc,clock,1,2,3,4\r"]
    {
        assert!(damage(&format!("{heading}{line}\n")).contains("line 3"), "{line}");
    }
    assert!(damage(&format!("{}{{}}\n", LineForm::Json.opening())).contains("line 2"));
    let endless = format!("{heading}{}", "7".repeat(LONGEST_LINE as usize + 1));
    assert!(damage(&endless).contains("line 3"));
}

/// As a power failure leaves it: zeros where lines were, and good ones after.
#[test]
fn a_bad_line_costs_only_itself() {
    for form in [LineForm::Csv, LineForm::Json] {
        let good: Vec<Record> = (0..4).map(sample).collect();
        let bad = format!("{}{}\n", "\0".repeat(700), form.line(&good[0]).unwrap().trim_end());
        let text = file(form, &good[..2]) + &bad + &form.line(&good[2]).unwrap();
        let (whole, read) = records(text.as_bytes()).unwrap();
        assert_eq!(read, good[..3]);
        let first = text.lines().count() as u64 - 1;
        assert_eq!(whole.bad, BadLines { count: 1, first });
        // A file of them is none of ours.
        let text = file(form, &good) + &bad.repeat(11);
        assert!(matches!(records(text.as_bytes()), Err(Damage::Line { .. })));
    }
}

#[test]
fn a_name_that_would_break_the_line_is_not_written() {
    for name in ["a,b", "a\nb", "a\"b"] {
        let record = Record { reference: name.into(), ..sample(1) };
        assert_eq!(LineForm::Csv.line(&record), None);
        let line = LineForm::Json.line(&record).unwrap();
        assert_eq!(line.matches('\n').count(), 1);
    }
}
