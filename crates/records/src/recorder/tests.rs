use super::*;

fn record(boot: &str, n: u64) -> Record {
    let times = [n, n + 90, u64::MAX - 2, u64::MAX - 1];
    Record::of_columns([boot, "ntp [::1]:123", "monotonic", "clock"], times).unwrap()
}

fn resume(path: &Path) -> Result<(Recorder, Joined, Vec<Record>), Error> {
    let mut records = Vec::new();
    let (recorder, joined) = Recorder::resume(path, |record| {
        records.push(record.clone());
        Ok(())
    })?;
    Ok((recorder, joined, records))
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn what_is_written_is_read_and_continued() {
    for name in ["run.csv", "run.jsonl", "run.parquet"] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        let mut recorder = Recorder::create(&path).unwrap();
        recorder.write(&[record("a", 1), record("a", 2)]).unwrap();
        recorder.write(&[]).unwrap();
        recorder.finish().unwrap();
        let (mut again, joined, records) = resume(&path).unwrap();
        assert_eq!(joined, Joined { path: path.clone(), cut_bytes: 0, bad: BadLines::default() });
        assert_eq!(records, [record("a", 1), record("a", 2)]);
        again.write(&[record("b", 3)]).unwrap();
        again.finish().unwrap();
        let (last, _, records) = resume(&path).unwrap();
        assert_eq!(records, [record("a", 1), record("a", 2), record("b", 3)]);
        // Not twice at once.
        let lines = last.lines_path().to_owned();
        let second = resume(&path).unwrap_err().to_string();
        assert_eq!(second, format!("{} is being written by another run", lines.display()));
        last.finish().unwrap();
        assert_eq!(names(folder.path()), [name]);
        // Not by mistake.
        let error = Recorder::create(&path).unwrap_err().to_string();
        assert!(error.ends_with("exists already"), "{error}");
    }
}

#[test]
fn a_line_that_was_cut_is_left_out_wherever_it_was_cut() {
    let folder = tempfile::tempdir().unwrap();
    for (name, lines) in
        [("a.csv", "a.csv"), ("a.jsonl", "a.jsonl"), ("a.parquet", "a.parquet.partial")]
    {
        let (path, lines) = (folder.path().join(name), folder.path().join(lines));
        Recorder::create(&path).unwrap().write(&[record("a", 1), record("a", 2)]).unwrap();
        let text = fs::read_to_string(&lines).unwrap();
        let last = text.trim_end().rfind('\n').unwrap() + 1;
        for end in last + 1..text.len() {
            fs::write(&lines, &text[..end]).unwrap();
            let (mut recorder, joined, records) = resume(&path).unwrap();
            assert_eq!((records, joined.cut_bytes), (vec![record("a", 1)], (end - last) as u64));
            recorder.write(&[record("a", 2)]).unwrap();
            assert_eq!(fs::read_to_string(&lines).unwrap(), text);
        }
    }
}

/// Whatever a killed run leaves of a Parquet file: all comparisons, once.
#[test]
fn a_parquet_run_killed_anywhere_leaves_all_once() {
    let all = [record("a", 1), record("a", 2)];
    let begun = || {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.parquet");
        let mut recorder = Recorder::create(&path).unwrap();
        recorder.write(&all).unwrap();
        (folder, path, recorder)
    };
    let holds = |folder: tempfile::TempDir, path: &Path| {
        let (recorder, _, records) = resume(path).unwrap();
        assert_eq!(records, all);
        recorder.finish().unwrap();
        assert_eq!(resume(path).unwrap().2, all);
        drop(folder);
    };
    // While it was measured.
    let (folder, path, recorder) = begun();
    drop(recorder);
    let why = Recorder::create(&path).unwrap_err().to_string();
    assert!(why.ends_with("run.parquet.partial was left by an interrupted run"), "{why}");
    holds(folder, &path);
    // While the Parquet file was written.
    let (folder, path, recorder) = begun();
    drop(recorder);
    fs::write(suffixed(&path, ".unfinished"), "PAR1dri").unwrap();
    holds(folder, &path);
    // When it was whole, and the lines were there still.
    let (folder, path, recorder) = begun();
    let lines = fs::read(recorder.lines_path()).unwrap();
    recorder.finish().unwrap();
    fs::write(partial(&path), lines).unwrap();
    holds(folder, &path);
    // While it was made lines again.
    let (folder, path, recorder) = begun();
    recorder.finish().unwrap();
    fs::write(suffixed(&path, ".partial.unfinished"), "# parachron dr").unwrap();
    holds(folder, &path);
}

#[test]
fn what_is_no_record_is_refused_and_kept() {
    let folder = tempfile::tempdir().unwrap();
    for (name, content, what) in [
        ("a.csv", &b"# parachron drift 2\n"[..], "has another version"),
        ("a.csv", b"# parachron driven", "is not a record of parachron drift"),
        ("a.csv", b"PAR1drift\x01\0\0", "is not a record of parachron drift"),
        ("a.parquet", b"# parachron drift 1\n", "is not a record of parachron drift"),
        ("a.parquet", b"PAR1drift\x02\0\0............", "has another version"),
    ] {
        let path = folder.path().join(name);
        fs::write(&path, content).unwrap();
        let error = resume(&path).unwrap_err().to_string();
        assert!(error.contains(what), "{error}");
        assert_eq!(fs::read(&path).unwrap(), content);
    }
    assert_eq!(names(folder.path()), ["a.csv", "a.parquet"]);
    let error = Recorder::create(Path::new("run.txt")).unwrap_err().to_string();
    assert_eq!(error, "cannot infer the format of run.txt from its name");
    let missing = folder.path().join("none.parquet");
    assert!(resume(&missing).unwrap_err().to_string().starts_with("cannot read "));
}

#[test]
fn a_full_disk_keeps_what_was_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.csv");
    let mut recorder = Recorder::create(&path).unwrap();
    recorder.lines = OpenOptions::new().write(true).open("/dev/full").unwrap();
    let error = recorder.write(&[record("a", 1)]).unwrap_err().to_string();
    assert_eq!(
        error,
        format!("cannot write {}: No space left on device (os error 28)", path.display())
    );
    assert_eq!(resume(&path).unwrap().2, []);
}

/// Killed, or the disk full, before the beginning was written.
#[test]
fn a_file_that_was_hardly_begun_is_begun_anew() {
    let folder = tempfile::tempdir().unwrap();
    for (name, lines, form) in [
        ("a.csv", "a.csv", LineForm::Csv),
        ("a.jsonl", "a.jsonl", LineForm::Json),
        ("a.parquet", "a.parquet.partial", LineForm::Csv),
    ] {
        let (path, lines) = (folder.path().join(name), folder.path().join(lines));
        for end in 0..form.opening().len() {
            fs::write(&lines, &form.opening()[..end]).unwrap();
            let (mut recorder, joined, records) = resume(&path).unwrap();
            assert_eq!((records, joined.cut_bytes), (Vec::new(), end as u64));
            recorder.write(&[record("a", 1)]).unwrap();
            let line = form.line(&record("a", 1)).unwrap();
            assert_eq!(fs::read_to_string(&lines).unwrap(), form.opening() + &line);
        }
    }
}

#[test]
fn a_file_of_nothing_is_not_kept() {
    for name in ["a.csv", "a.jsonl", "a.parquet"] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        let mut recorder = Recorder::create(&path).unwrap();
        recorder.write(&[]).unwrap();
        recorder.finish().unwrap();
        assert_eq!(names(folder.path()), [""; 0]);
    }
}

#[test]
fn what_its_reader_refuses_is_as_it_was() {
    for name in ["a.csv", "a.parquet"] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        let mut recorder = Recorder::create(&path).unwrap();
        recorder.write(&[record("a", 1), record("a", 2)]).unwrap();
        recorder.finish().unwrap();
        if name == "a.csv" {
            let mut file = OpenOptions::new().append(true).open(&path).unwrap();
            file.write_all(b"half a li").unwrap();
        }
        let before = fs::read(&path).unwrap();
        let error = Recorder::resume(&path, |_| Err("is of no use".into())).unwrap_err();
        assert_eq!(error.to_string(), format!("{} is of no use", path.display()));
        assert_eq!(fs::read(&path).unwrap(), before);
        assert_eq!(names(folder.path()), [name]);
    }
}

#[test]
fn reading_changes_nothing() {
    for name in ["a.csv", "a.jsonl", "a.parquet"] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        let mut recorder = Recorder::create(&path).unwrap();
        recorder.write(&[record("a", 1), record("a", 2)]).unwrap();
        let seen = |cut_bytes| {
            let before = names(folder.path());
            let mut records = Vec::new();
            let joined = read::read(&path, |record| {
                records.push(record.clone());
                Ok(())
            });
            assert_eq!(joined.unwrap().cut_bytes, cut_bytes);
            assert_eq!(records, [record("a", 1), record("a", 2)]);
            assert_eq!(names(folder.path()), before);
        };
        // While it is written, with half a line, and when it is whole.
        seen(0);
        assert_eq!(read::is_unfinished(&path), name == "a.parquet");
        let lines = recorder.lines_path().to_owned();
        let whole = fs::read(&lines).unwrap();
        let cut = [&whole[..], b"half a li"].concat();
        fs::write(&lines, &cut).unwrap();
        seen(9);
        assert_eq!(fs::read(&lines).unwrap(), cut);
        fs::write(&lines, &whole).unwrap();
        recorder.finish().unwrap();
        seen(0);
        assert!(!read::is_unfinished(&path));
    }
}
