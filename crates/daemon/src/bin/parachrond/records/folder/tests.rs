use super::*;

/// 2026-11-22 00:00.
const DAY: i64 = 1_795_305_600;
const PART: &str = "date=2026-11-22/host=db-1/part-1795305600-N.jsonl";

fn minute(unix_s: i64) -> Minute {
    let source = Some("ntp a".to_owned());
    Minute { unix_s, source, error_ns: Some(unix_s % 977), ..Minute::default() }
}

/// The times of a file.
fn times(path: &Path) -> Vec<i64> {
    let text = fs::read_to_string(path).unwrap();
    assert!(text.ends_with('\n'), "{text}");
    let time =
        |line: &str| serde_json::from_str::<serde_json::Value>(line).ok()?["unix_s"].as_i64();
    text.lines().filter_map(time).collect()
}

fn names(root: &Path) -> Vec<String> {
    let mut names = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(root).unwrap().display().to_string();
                names.push(numberless(&name));
            }
        }
    }
    names.sort();
    names
}

/// A name with N in the place of its random number.
fn numberless(name: &str) -> String {
    let (begin, end) = name.rsplit_once('.').unwrap();
    match begin.rsplit_once('-') {
        Some((begin, number)) if number.len() == 8 => {
            format!("{begin}-N.{end}")
        }
        _ => name.to_owned(),
    }
}

/// The files of that name, whatever their numbers.
fn all_at(root: &Path, name: &str) -> Vec<PathBuf> {
    let wanted = root.join(name);
    let entries = fs::read_dir(wanted.parent().unwrap()).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let is_it = |path: &PathBuf| numberless(path.to_str().unwrap()) == wanted.to_str().unwrap();
    paths.filter(is_it).collect()
}

/// The only one.
fn at(root: &Path, name: &str) -> PathBuf {
    let [path] = all_at(root, name).try_into().unwrap();
    path
}

/// Machines with one host name, gathered into one folder.
#[test]
fn clones_do_not_write_over_each_others_files() {
    let roots = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let files = roots.each_ref().map(|root| {
        Folder::new(root.path(), "clone", u64::MAX).write(&minute(DAY)).unwrap();
        at(root.path(), &PART.replace("db-1", "clone")).file_name().unwrap().to_owned()
    });
    assert_ne!(files[0], files[1]);
}

#[test]
fn a_day_is_a_file_and_a_minute_a_line() {
    let root = tempfile::tempdir().unwrap();
    let mut folder = Folder::new(root.path(), "db-1", u64::MAX);
    for row in 0..3 {
        folder.write(&minute(DAY + 60 * row)).unwrap();
    }
    assert_eq!(names(root.path()), [PART]);
    folder.write(&minute(DAY + 86_400)).unwrap();
    assert_eq!(names(root.path()), [PART, "date=2026-11-23/host=db-1/part-1795392000-N.jsonl"]);
    let part = at(root.path(), PART);
    assert_eq!(times(&part), [DAY, DAY + 60, DAY + 120]);
    // What is not known is left out.
    let text = fs::read_to_string(part).unwrap();
    assert_eq!(
        text.lines().next(),
        Some("{\"unix_s\":1795305600,\"source\":\"ntp a\",\"error_ns\":687}")
    );
}

#[test]
fn a_killed_daemon_goes_on_where_the_last_whole_line_ended() {
    let root = tempfile::tempdir().unwrap();
    let begin = || Folder::new(root.path(), "db-1", u64::MAX);
    let mut killed = begin();
    killed.write(&minute(DAY)).unwrap();
    let lines = killed.today.as_ref().unwrap().path.clone();
    // Two daemons do not write to one file.
    let mut other = begin();
    other.write(&minute(DAY)).unwrap();
    let others = other.today.as_ref().unwrap().path.clone();
    assert_ne!(others, lines);
    drop((killed, other));
    fs::remove_file(others).unwrap();
    let cut = [&b"\0\0\0\n"[..], b"{\"unix_s\":17953"].concat();
    OpenOptions::new().append(true).open(&lines).unwrap().write_all(&cut).unwrap();

    let mut again = begin();
    again.write(&minute(DAY + 60)).unwrap();
    assert_eq!(times(&lines), [DAY, DAY + 60]);
    assert_eq!(fs::read_to_string(&lines).unwrap().lines().count(), 3);
    drop(again);
    let whole = fs::read(&lines).unwrap();
    let line_bytes = minute(DAY).line().len();
    for length in 0..line_bytes {
        fs::write(&lines, &whole[..length]).unwrap();
        begin().write(&minute(DAY + 60)).unwrap();
        assert_eq!(times(&lines), [DAY + 60], "{length}");
    }
    fs::write(&lines, &whole).unwrap();
    // Back on the day before, by a clock that was set: it goes on with that day.
    let mut later = begin();
    later.write(&minute(DAY + 86_400)).unwrap();
    later.write(&minute(DAY + 30)).unwrap();
    assert_eq!(times(&at(root.path(), PART)), [DAY, DAY + 60, DAY + 30]);
}

#[test]
fn the_oldest_go_beyond_the_limit_and_others_stay() {
    let root = tempfile::tempdir().unwrap();
    let mut other = Folder::new(root.path(), "db-2", u64::MAX);
    other.write(&minute(DAY)).unwrap();
    fs::write(root.path().join("date=2026-11-22/notes"), "mine").unwrap();
    let line_bytes = minute(DAY).line().len() as u64;
    let mut folder = Folder::new(root.path(), "db-1", 5 * line_bytes);
    for day in 0..20 {
        folder.write(&minute(DAY + day * 86_400)).unwrap();
    }
    let files = folder.files().unwrap();
    let bytes: u64 = files.iter().map(|file| file.bytes).sum();
    assert!(bytes <= 5 * line_bytes && files.len() > 2, "{files:?}");
    assert_eq!(files.last().unwrap().date, "2026-12-11");
    assert_eq!(other.files().unwrap().len(), 1);
    assert!(root.path().join("date=2026-11-22/notes").exists());
    assert!(!root.path().join("date=2026-11-23").exists());
    // Not the one that is being written.
    folder.limit_bytes = 0;
    folder.write(&minute(DAY + 20 * 86_400)).unwrap();
    assert_eq!(folder.files().unwrap().len(), 1);
}

#[test]
fn what_cannot_be_written_is_an_error_until_it_can() {
    let root = tempfile::tempdir().unwrap();
    let blocked = root.path().join("records");
    fs::write(&blocked, "a file").unwrap();
    let mut folder = Folder::new(&blocked, "db-1", u64::MAX);
    assert!(matches!(folder.write(&minute(DAY)), Err(RecordsError::Write(..))));
    fs::remove_file(&blocked).unwrap();
    folder.write(&minute(DAY)).unwrap();
    // All is removed while it writes.
    fs::remove_dir_all(&blocked).unwrap();
    folder.write(&minute(DAY + 60)).unwrap();
    let lines = folder.today.as_mut().unwrap();
    let path = lines.path.clone();
    assert_eq!(times(&path), [DAY + 60]);
    // No room for a line: what is there stays whole.
    lines.file = OpenOptions::new().write(true).open("/dev/full").unwrap();
    assert!(matches!(folder.write(&minute(DAY + 120)), Err(RecordsError::Write(..))));
    folder.write(&minute(DAY + 180)).unwrap();
    let all: Vec<i64> = folder.files().unwrap().iter().flat_map(|file| times(&file.path)).collect();
    assert_eq!(all, [DAY + 60, DAY + 180]);
}

#[test]
fn a_host_is_a_folder_whatever_its_name() {
    let named = |name: &str| Folder::new(Path::new("/"), name, 0).host;
    assert_eq!(named("db-1.example"), "db-1.example");
    assert_eq!(named("../x y=ü"), "_x_y__");
    assert_eq!((named(".."), named("")), ("unknown".to_owned(), "unknown".to_owned()));
    assert_eq!(named(&"x".repeat(300)).len(), 200);
    assert_eq!((date_of(-1), date_of(DAY + 86_399)), ("1969-12-31".into(), "2026-11-22".into()));
}

/// Parquet, and the lines of a day that was not over.
#[test]
fn files_of_an_earlier_version_are_counted_and_left_alone() {
    let root = tempfile::tempdir().unwrap();
    let old = root.path().join("date=2026-11-21/host=db-1");
    fs::create_dir_all(&old).unwrap();
    let old = ["part-1-00000000.parquet", "_part-2-00000000.jsonl"].map(|name| old.join(name));
    for path in &old {
        fs::write(path, "an old file").unwrap();
    }
    let mut folder = Folder::new(root.path(), "db-1", 0);
    assert_eq!(folder.count_old(), 2);
    folder.write(&minute(DAY)).unwrap();
    assert!(old.iter().all(|path| path.exists()));
    assert_eq!((folder.count_old(), folder.files().unwrap().len()), (2, 1));
}
