use parquet::file::reader::FileReader;
use parquet::file::serialized_reader::SerializedFileReader;
use parquet::record::RowAccessor;

use super::*;
use crate::{Compared, Minute, Outside, Record};

/// 2026-11-22 00:00.
const DAY: i64 = 1_795_305_600;
const PART: &str = "date=2026-11-22/host=db-1/part-1795305600-N.parquet";

fn minute(unix_s: i64) -> Minute {
    let source = Some("ntp a".to_owned());
    Minute { unix_s, source, error_ns: Some(unix_s % 977), ..Minute::default() }
}

/// Times, sources and errors of a Parquet file.
fn rows(path: &Path) -> Vec<(i64, Option<String>, Option<i64>)> {
    let reader = SerializedFileReader::new(File::open(path).unwrap()).unwrap();
    let texts = Minute::TEXTS.iter().map(|text| text.name);
    let numbers = Minute::NUMBERS.iter().map(|number| number.name);
    let columns: Vec<_> = ["unix_s"].into_iter().chain(texts).chain(numbers).collect();
    let at = |name: &str| columns.iter().position(|column| *column == name).unwrap();
    let rows = reader.get_row_iter(None).unwrap().map(|row| {
        let row = row.unwrap();
        assert_eq!(row.len(), columns.len());
        let source = row.get_string(at("source")).ok().cloned();
        (row.get_long(0).unwrap(), source, row.get_long(at("error_ns")).ok())
    });
    rows.collect()
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
        let mut folder = Folder::new(root.path(), "clone", u64::MAX);
        folder.write(&minute(DAY)).unwrap();
        folder.pack().unwrap();
        at(root.path(), &PART.replace("db-1", "clone")).file_name().unwrap().to_owned()
    });
    assert_ne!(files[0], files[1]);
}

#[test]
fn a_day_is_lines_and_a_file_and_then_a_file_alone() {
    let root = tempfile::tempdir().unwrap();
    let mut folder = Folder::new(root.path(), "db-1", u64::MAX);
    for row in 0..3 {
        folder.write(&minute(DAY + 60 * row)).unwrap();
    }
    assert_eq!(folder.pack().unwrap(), Packed { rows: 3, left_out: 0 });
    assert_eq!(names(root.path()), ["date=2026-11-22/host=db-1/_part-1795305600-N.jsonl", PART]);
    folder.write(&minute(DAY + 180)).unwrap();
    folder.write(&minute(DAY + 86_400)).unwrap();
    assert_eq!(names(root.path()), [PART, "date=2026-11-23/host=db-1/_part-1795392000-N.jsonl"]);
    let expected: Vec<_> = (0..4).map(|row| minute(DAY + 60 * row)).collect();
    let expected: Vec<_> =
        expected.into_iter().map(|row| (row.unix_s, row.source, row.error_ns)).collect();
    assert_eq!(rows(&at(root.path(), PART)), expected);
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
    assert_eq!(again.pack().unwrap(), Packed { rows: 2, left_out: 1 });
    drop(again);
    // A day that was over before the next start.
    let mut later = begin();
    later.write(&minute(DAY + 86_400)).unwrap();
    later.pack().unwrap();
    assert_eq!(rows(&at(root.path(), PART)).len(), 2);
    assert!(!lines.exists());
    // Back on the day before, by a clock that was set: nothing of it is written over.
    later.write(&minute(DAY)).unwrap();
    later.pack().unwrap();
    let files = all_at(root.path(), PART);
    let mut counts: Vec<usize> = files.iter().map(|path| rows(path).len()).collect();
    counts.sort_unstable();
    assert_eq!(counts, [1, 2]);
}

#[test]
fn the_oldest_go_beyond_the_limit_and_others_stay() {
    let root = tempfile::tempdir().unwrap();
    let mut other = Folder::new(root.path(), "db-2", u64::MAX);
    other.write(&minute(DAY)).unwrap();
    other.pack().unwrap();
    fs::write(root.path().join("date=2026-11-22/notes"), "mine").unwrap();
    let mut folder = Folder::new(root.path(), "db-1", 20_000);
    for day in 0..20 {
        folder.write(&minute(DAY + day * 86_400)).unwrap();
    }
    folder.pack().unwrap();
    let files = folder.files().unwrap();
    let bytes: u64 = files.iter().map(|file| file.bytes).sum();
    assert!(bytes <= 20_000 && files.len() > 2, "{files:?}");
    assert_eq!(files.last().unwrap().date, "2026-12-11");
    assert_eq!(other.files().unwrap().len(), 2);
    assert!(root.path().join("date=2026-11-22/notes").exists());
    assert!(!root.path().join("date=2026-11-23").exists());
}

#[test]
fn what_cannot_be_written_is_an_error_until_it_can() {
    let root = tempfile::tempdir().unwrap();
    let blocked = root.path().join("records");
    fs::write(&blocked, "a file").unwrap();
    let mut folder = Folder::new(&blocked, "db-1", u64::MAX);
    assert!(matches!(folder.write(&minute(DAY)), Err(Error::Write(..))));
    assert!(folder.pack().is_err());
    fs::remove_file(&blocked).unwrap();
    folder.write(&minute(DAY)).unwrap();
    // All is removed while it writes.
    fs::remove_dir_all(&blocked).unwrap();
    folder.write(&minute(DAY + 60)).unwrap();
    assert_eq!(folder.pack().unwrap().rows, 1);
    // No room for a line: what is there stays whole.
    let lines = folder.today.as_mut().unwrap();
    lines.file = OpenOptions::new().write(true).open("/dev/full").unwrap();
    assert!(matches!(folder.write(&minute(DAY + 120)), Err(Error::Write(..))));
    folder.write(&minute(DAY + 180)).unwrap();
    assert_eq!(folder.pack().unwrap(), Packed { rows: 2, left_out: 0 });
}

#[test]
fn a_host_is_a_folder_whatever_its_name() {
    let named = |name: &str| Folder::<Minute>::new(Path::new("/"), name, 0).host;
    assert_eq!(named("db-1.example"), "db-1.example");
    assert_eq!(named("../x y=ü"), "_x_y__");
    assert_eq!((named(".."), named("")), ("unknown".to_owned(), "unknown".to_owned()));
    assert_eq!(named(&"x".repeat(300)).len(), 200);
    assert_eq!((date_of(-1), date_of(DAY + 86_399)), ("1969-12-31".into(), "2026-11-22".into()));
}

/// A file that cannot be made keeps back neither the others nor the limit.
#[test]
fn one_that_cannot_be_packed_stops_nothing_else() {
    let root = tempfile::tempdir().unwrap();
    let mut folder = Folder::new(root.path(), "db-1", u64::MAX);
    for day in 0..3 {
        folder.write(&minute(DAY + 86_400 * day)).unwrap();
    }
    let of = |name: &str| root.path().join("date=2026-11-22/host=db-1").join(name);
    // A folder has its name.
    fs::create_dir_all(of("part-7.parquet/x")).unwrap();
    fs::write(of("_part-7.jsonl"), lines::line(&minute(DAY + 7))).unwrap();
    // The day that ends cannot be made either: the row of the next is written once.
    let last = at(root.path(), "date=2026-11-24/host=db-1/_part-1795478400-N.jsonl");
    let last = last.file_stem().unwrap().to_str().unwrap().trim_start_matches('_').to_owned();
    let blocked = format!("date=2026-11-24/host=db-1/{last}.parquet/x");
    fs::create_dir_all(root.path().join(blocked)).unwrap();
    folder.write(&minute(DAY + 86_400 * 3)).unwrap();
    let today = "date=2026-11-25/host=db-1/part-1795564800-N.parquet";
    assert!(folder.pack().is_err());
    assert_eq!(rows(&at(root.path(), today)).len(), 1);
    assert!(names(root.path()).contains(&PART.to_owned()));
    folder.limit_bytes = 0;
    assert!(folder.pack().is_err());
    assert!(!names(root.path()).contains(&PART.to_owned()));
}

#[test]
fn lines_that_cannot_be_packed_are_not_read_again_for_each_row() {
    let root = tempfile::tempdir().unwrap();
    let mut folder = Folder::new(root.path(), "db-1", 40_000);
    folder.write(&minute(DAY)).unwrap();
    let path = folder.today.as_ref().unwrap().path.clone();
    let part = path.file_stem().unwrap().to_str().unwrap().trim_start_matches('_').to_owned();
    // A folder has its name.
    fs::create_dir_all(path.with_file_name(part + ".parquet").join("x")).unwrap();
    let mut wanted = Vec::new();
    for row in 1..200 {
        folder.write(&minute(DAY + row)).unwrap();
        let today = folder.today.as_ref().unwrap();
        assert_eq!(today.path, path);
        wanted.push(today.full_bytes);
    }
    wanted.dedup();
    assert!((2..5).contains(&wanted.len()) && wanted[0] == 10_000, "{wanted:?}");
    assert!(folder.pack().is_err());
    assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), 200);
}

/// A table a folder: engines would take all for rows of one.
#[test]
fn comparisons_are_rows_too_but_not_beside_minutes() {
    let record = Record {
        boot: "a boot".into(),
        reference: "ntp a".into(),
        clock: "tsc".into(),
        outside: Outside::Reference,
        clock_before_ns: 1,
        clock_after_ns: 2,
        reference_before_ns: 3,
        reference_after_ns: u64::MAX,
    };
    let root = tempfile::tempdir().unwrap();
    let mut folder = Folder::new(root.path(), "db-1", u64::MAX);
    folder.write(&Compared::new(DAY, &record)).unwrap();
    assert_eq!(folder.finish().unwrap(), Packed { rows: 1, left_out: 0 });
    let name = PART.replace("part-", "drift-");
    assert_eq!(names(root.path()).concat(), name);
    let file = File::open(at(root.path(), &name)).unwrap();
    let rows = SerializedFileReader::new(file).unwrap();
    let row = rows.get_row_iter(None).unwrap().next().unwrap().unwrap();
    let texts: Vec<_> = (1..5).map(|at| row.get_string(at).unwrap().as_str()).collect();
    assert_eq!(texts, ["a boot", "ntp a", "tsc", "reference"]);
    let times: Vec<_> = [0, 5, 6, 7].map(|at| row.get_long(at).unwrap()).into();
    assert_eq!((times, row.get_long(8).is_ok()), (vec![DAY, 1, 2, 3], false));

    let mut minutes = Folder::new(root.path(), "db-1", u64::MAX);
    let refused = minutes.write(&minute(DAY)).unwrap_err().to_string();
    assert!(refused.contains("drift-1795305600"), "{refused}");
}

/// A run of many comparisons a second.
#[test]
fn many_lines_are_packed_before_the_day_is_over_and_bounded() {
    let root = tempfile::tempdir().unwrap();
    let mut folder = Folder::new(root.path(), "db-1", 40_000);
    let mut most = 0;
    for row in 0..2_000 {
        folder.write(&minute(DAY + row)).unwrap();
        most = most.max(folder.files().unwrap().iter().map(|file| file.bytes).sum());
    }
    // The oldest go when lines become a file: until then there are those beside.
    assert!(most <= 40_000 + 3 * 10_000, "{most}");
    let files = folder.files().unwrap();
    assert!(files.iter().filter(|file| !file.is_lines).count() > 2, "{files:?}");
    folder.finish().unwrap();
    // The newest is there, and all are whole.
    let (mut newest, mut counts) = (0, 0);
    for path in Folder::<Minute>::new(root.path(), "db-1", 0).files().unwrap() {
        let rows = rows(&path.path);
        newest = newest.max(rows.last().unwrap().0);
        counts += rows.len();
    }
    assert_eq!(newest, DAY + 1_999);
    assert!((200..2_000).contains(&counts), "{counts}");
}
