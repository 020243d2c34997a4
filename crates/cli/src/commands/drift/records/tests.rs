use super::*;

fn record(boot: &str, n: u64) -> Record {
    let reading = Reading {
        clock: Span { before: n, after: n + 90 },
        reference: Span { before: u64::MAX - 2, after: u64::MAX - 1 },
        nesting: if n.is_multiple_of(2) {
            Nesting::ClockOutside
        } else {
            Nesting::ReferenceOutside
        },
    };
    Record::new(boot, "ntp [::1]:123", ClockName::Monotonic, reading)
}

#[test]
fn what_is_written_is_read_and_gone_on_with() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["run.csv", "run.jsonl"] {
        let path = folder.path().join(name);
        let mut recorder = Recorder::create(&path).unwrap();
        recorder.write(&[record("a", 1), record("a", 2)]).unwrap();
        recorder.write(&[]).unwrap();
        drop(recorder);
        let (mut again, joined) = Recorder::resume(&path).unwrap();
        assert_eq!((joined.records, joined.note), (vec![record("a", 1), record("a", 2)], None));
        again.write(&[record("b", 3)]).unwrap();
        let (_, joined) = Recorder::resume(&path).unwrap();
        assert_eq!(joined.records.last(), Some(&record("b", 3)));
        assert_eq!(joined.records[0].reading(), record("a", 1).reading());
        // Not by mistake.
        let error = Recorder::create(&path).unwrap_err().to_string();
        assert!(error.ends_with("is there already"), "{error}");
    }
}

#[test]
fn a_line_that_was_cut_is_left_out_wherever_it_was_cut() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["run.csv", "run.jsonl"] {
        let path = folder.path().join(name);
        Recorder::create(&path).unwrap().write(&[record("a", 1), record("a", 2)]).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let last = text.trim_end().rfind('\n').unwrap() + 1;
        for end in last + 1..text.len() {
            std::fs::write(&path, &text[..end]).unwrap();
            let (mut recorder, joined) = Recorder::resume(&path).unwrap();
            assert_eq!(joined.records, [record("a", 1)]);
            assert!(joined.note.unwrap().contains(&format!("{} bytes left out", end - last)));
            recorder.write(&[record("a", 2)]).unwrap();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        }
    }
}

#[test]
fn what_is_no_record_is_refused_and_kept() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.csv");
    let refused = |text: &str| {
        std::fs::write(&path, text).unwrap();
        let error = Recorder::resume(&path).unwrap_err().to_string();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        error
    };
    assert!(refused("").contains("no record of parachron drift"));
    assert!(refused("time,offset\n").contains("found \"time,offset\""));
    assert!(refused("# parachron drift 2\nx\n").contains("of another version"));
    assert!(refused("{\"parachron_drift\":2}\n").contains("of another version"));
    assert!(refused(&format!("{CSV_MARK}\nboot\n")).contains("found \"boot\""));
    let wrong = format!("{CSV_MARK}\n{CSV_HEADING}\na,raw,tsc,clock,1,2,3\n");
    assert!(refused(&wrong).contains("line 3 is no comparison"), "{}", refused(&wrong));
    let error = Recorder::create(Path::new("run.parquet")).unwrap_err().to_string();
    assert!(error.contains("by its name"), "{error}");
}
