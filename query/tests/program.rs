//! The program over small records whose answers were worked out by hand, and over what is
//! none. That the shipped questions are answered as by DuckDB, ClickHouse and plain Python is
//! checked by `cargo xtask queries`.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::ArrowWriterOptions;

/// Of a column of numbers or texts.
enum Values {
    Numbers(Vec<Option<i64>>),
    Texts(Vec<Option<&'static str>>),
}

use Values::{Numbers, Texts};

/// The columns that the questions name, of so many rows: those given, and others unknown.
fn columns(rows: usize, known: &[(&str, Values)]) -> RecordBatch {
    let texts = ["version", "platform", "product", "kernel", "clocksource", "state", "source"];
    let numbers = [
        "unix_s",
        "error_ns",
        "frequency_ppb",
        "steal_ms",
        "disruptions",
        "pause",
        "snapshot_restored",
        "migrated",
        "long_steal",
        "counter_disrupted",
    ];
    let given = |name: &str| known.iter().find(|(it, _)| *it == name).map(|(_, values)| values);
    let text = |name: &'static str| {
        let values = match given(name) {
            Some(Texts(values)) => values.clone(),
            _ => vec![None; rows],
        };
        (name, Arc::new(StringArray::from(values)) as ArrayRef)
    };
    let number = |name: &'static str| {
        let values = match given(name) {
            Some(Numbers(values)) => values.clone(),
            _ => vec![None; rows],
        };
        (name, Arc::new(Int64Array::from(values)) as ArrayRef)
    };
    RecordBatch::try_from_iter(texts.map(text).into_iter().chain(numbers.map(number))).unwrap()
}

fn write(path: &Path, rows: &RecordBatch) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let file = File::create(path).unwrap();
    let options = ArrowWriterOptions::new().with_skip_arrow_metadata(true);
    let mut writer = ArrowWriter::try_new_with_options(file, rows.schema(), options).unwrap();
    writer.write(rows).unwrap();
    writer.close().unwrap();
}

/// A host's day: its clock source, and a row for each of these errors.
fn day(root: &Path, date: &str, host: &str, clocksource: &'static str, off_ns: &[Option<i64>]) {
    let rows = off_ns.len();
    let times = (0..).map(|row| Some(1_795_305_600 + 60 * row)).take(rows).collect();
    let batch = columns(
        rows,
        &[
            ("unix_s", Numbers(times)),
            ("error_ns", Numbers(off_ns.to_vec())),
            ("frequency_ppb", Numbers(vec![Some(-7); rows])),
            ("clocksource", Texts(vec![Some(clocksource); rows])),
            ("kernel", Texts(vec![Some(if date < "2026-11-22" { "6.1" } else { "6.2" }); rows])),
            ("state", Texts(vec![Some("synchronised"); rows])),
        ],
    );
    write(&root.join(format!("date={date}/host={host}/part-1-0badcafe.parquet")), &batch);
}

/// Three hosts on two days; one's clock is in the year 2099, and of one nothing is known.
fn records() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    for (date, by_ns) in [("2026-11-21", 0), ("2026-11-22", 1_000_000)] {
        day(root, date, "a", "tsc", &[Some(40_001 + by_ns), Some(30_000), None]);
        day(root, date, "b", "kvm-clock", &[Some(2_000), Some(900_000)]);
        day(root, date, "c", "jiffies", &[None, None]);
    }
    day(root, "2099-01-01", "early", "tsc", &[Some(5)]);
    folder
}

fn run(records: &Path, words: &[&str]) -> Output {
    let program = env!("CARGO_BIN_EXE_parachron-query");
    Command::new(program).arg("--records").arg(records).args(words).output().unwrap()
}

fn answer(records: &Path, words: &[&str]) -> String {
    let output = run(records, words);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{said}");
    String::from_utf8(output.stdout).unwrap()
}

/// What it says of a question that has no answer.
fn refused(records: &Path, words: &[&str]) -> String {
    let output = run(records, words);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), &output.stdout[..]), (Some(2), &b""[..]), "{said}");
    assert!(said.starts_with("parachron-query: ") && said.contains("\n  try: "), "{said}");
    assert!(!said.contains("panicked"), "{said}");
    said
}

#[test]
fn shipped_questions_are_answered() {
    let folder = records();
    assert_eq!(
        answer(folder.path(), &["worst-clocks"]),
        "host,of_day,off_ns,unbounded,not_synchronised,minutes\n\
         c,2026-11-22,,2,0,2\n\
         a,2026-11-22,1040001,1,0,3\n\
         b,2026-11-22,900000,0,0,2\n"
    );
    assert_eq!(
        answer(folder.path(), &["drift-by-clocksource", "--format", "rows"]),
        "[\"source_name\",\"hosts\",\"minutes\",\"unbounded\",\"p99_ns\",\"least_ppb\",\
         \"most_ppb\",\"counter_disruptions\"]\n\
         [\"jiffies\",1,4,4,null,-7,-7,null]\n\
         [\"tsc\",2,7,2,1041000,-7,-7,null]\n\
         [\"kvm-clock\",1,4,0,900000,-7,-7,null]\n"
    );
    let changed = answer(folder.path(), &["changed-last-night"]);
    assert_eq!(changed.lines().count(), 4, "{changed}");
    assert!(changed.contains("\na,6.1,6.2,tsc,tsc,"), "{changed}");
    let margin = answer(folder.path(), &["margin-by-consumer"]);
    assert!(margin.contains("\nydb,2026-11-22,2500000,1459999,1,3\n"), "{margin}");
    let restores = answer(folder.path(), &["restores-by-platform", "--format", "json"]);
    assert!(restores.starts_with("[{\"platform_name\":\"unknown\""), "{restores}");
    assert!(restores.contains("\"hosts\":4,"), "{restores}");
}

#[test]
fn any_question_that_only_reads_is_answered() {
    let folder = records();
    let counted = answer(folder.path(), &["select count(*) as n, max(date) as d from clocks"]);
    assert_eq!(counted, "n,d\n15,2099-01-01\n");
    let none = answer(folder.path(), &["select host from clocks where host = 'x'"]);
    assert_eq!(none, "host\n");
    for changing in [
        "create table t as select 1 as one",
        "drop table clocks",
        "copy clocks to '/tmp/x.parquet'",
        "insert into clocks select * from clocks",
        "set datafusion.execution.batch_size = 1",
        "select 1 as one; select 2 as two",
    ] {
        refused(folder.path(), &[changing]);
    }
    assert!(refused(folder.path(), &["select nonsense from clocks"]).contains("nonsense"));
    assert!(refused(folder.path(), &["worst"]).contains("worst-clocks"));
    refused(folder.path(), &["select * from '/etc/hostname'"]);
}

#[test]
fn merged_days_are_records_too_but_not_among_others() {
    let folder = tempfile::tempdir().unwrap();
    let rows = columns(
        2,
        &[
            ("unix_s", Numbers(vec![Some(1), Some(2)])),
            ("error_ns", Numbers(vec![Some(7), Some(9)])),
        ],
    );
    let mut named: Vec<(String, ArrayRef)> = rows
        .schema()
        .fields()
        .iter()
        .map(|field| field.name().clone())
        .zip(rows.columns().iter().cloned())
        .collect();
    named.push(("host".into(), Arc::new(StringArray::from(vec!["a", "b"]))));
    let merged = RecordBatch::try_from_iter(named).unwrap();
    write(&folder.path().join("date=2026-11-22/part-0.parquet"), &merged);
    assert_eq!(
        answer(folder.path(), &["select date, host, error_ns from clocks order by host"]),
        "date,host,error_ns\n2026-11-22,a,7\n2026-11-22,b,9\n"
    );
    day(folder.path(), "2026-11-23", "a", "tsc", &[Some(1)]);
    assert!(refused(folder.path(), &["worst-clocks"]).contains("a folder is either"));
    // A day that was merged with the host in the file and in its folder.
    let twice = tempfile::tempdir().unwrap();
    write(&twice.path().join("date=2026-11-22/host=a/part-0.parquet"), &merged);
    assert!(refused(twice.path(), &["worst-clocks"]).contains("has a column host"));
}

#[test]
fn a_folder_without_records_is_said_to_be_one() {
    let folder = tempfile::tempdir().unwrap();
    assert!(refused(folder.path(), &["worst-clocks"]).contains("has no records"));
    assert!(refused(Path::new("/no/such"), &["worst-clocks"]).contains("cannot read /no/such"));
    fs::write(folder.path().join("x.parquet"), "").unwrap();
    assert!(refused(folder.path(), &["worst-clocks"]).contains("in no folder of a day"));
}

/// 0x16 and twice a number as a varint: how a directory has a count of rows (Thrift's compact
/// protocol).
fn count(rows: u64) -> Vec<u8> {
    let (mut bytes, mut left) = (vec![0x16], 2 * rows);
    while left > 127 {
        bytes.push((left & 127 | 128) as u8);
        left >>= 7;
    }
    bytes.push(left as u8);
    bytes
}

/// A file whose directory says other counts of rows than there are.
fn claiming(data: &[u8], rows: u64, claimed: u64) -> Vec<u8> {
    let (body, end) = data.split_at(data.len() - 8);
    let length = u32::from_le_bytes(end[..4].try_into().unwrap()) as usize;
    let (body, directory) = body.split_at(body.len() - length);
    let (one, other) = (count(rows), count(claimed));
    let (mut changed, mut at, mut times) = (Vec::new(), 0, 0);
    while at < directory.len() {
        if directory[at..].starts_with(&one) {
            changed.extend(&other);
            at += one.len();
            times += 1;
        } else {
            changed.push(directory[at]);
            at += 1;
        }
    }
    assert!(times > 10, "{times}");
    let length = u32::try_from(changed.len()).unwrap();
    [body, &changed, &length.to_le_bytes(), b"PAR1"].concat()
}

#[test]
fn what_is_no_file_of_records_is_named() {
    let folder = records();
    let evil = folder.path().join("date=2026-11-22/host=evil/part-1.parquet");
    let rows = 241;
    let times = Numbers((0..rows).map(Some).collect());
    write(&evil, &columns(rows as usize, &[("unix_s", times)]));
    let good = fs::read(&evil).unwrap();
    answer(folder.path(), &["worst-clocks"]);

    let check = |content: &[u8], why: &str| {
        fs::write(&evil, content).unwrap();
        let said = refused(folder.path(), &["select count(*) as n from clocks"]);
        assert!(said.contains("host=evil/part-1.parquet ") && said.contains(why), "{said}");
    };
    check(b"", "it has 0 bytes");
    check(&b"hello ".repeat(1000), "is cut short, or no Parquet file: it ends with");
    for length in [1, 11, good.len() / 3, good.len() / 2, good.len() - 1] {
        check(&good[..length], "is cut short, or no Parquet file");
    }
    for claimed in [0, 240, 242, 1_000_000_000, 4_000_000_000_000_000_000] {
        check(&claiming(&good, 241, claimed), "is damaged: ");
    }
    let mut huge = good.clone();
    let at = huge.len() - 8;
    huge[at..at + 4].fill(0xff);
    check(&huge, "it says that its directory has 4294967295 of its");
    let foreign =
        RecordBatch::try_from_iter([("a", Arc::new(Int64Array::from(vec![1, 2])) as ArrayRef)]);
    write(&evil, &foreign.unwrap());
    check(&fs::read(&evil).unwrap(), "it has no unix_s of 64 bits");
    let other = RecordBatch::try_from_iter([
        ("unix_s", Arc::new(Int64Array::from(vec![1])) as ArrayRef),
        ("error_ns", Arc::new(StringArray::from(vec!["7"]))),
    ]);
    write(&evil, &other.unwrap());
    check(&fs::read(&evil).unwrap(), "has error_ns as Utf8, and ");
    // Any byte of the directory: an answer or a refusal, and no crash.
    let length = u32::from_le_bytes(good[good.len() - 8..][..4].try_into().unwrap()) as usize;
    for at in (good.len() - 8 - length..good.len() - 8).step_by(37) {
        let mut damaged = good.clone();
        damaged[at] ^= 0x55;
        fs::write(&evil, damaged).unwrap();
        let output = run(folder.path(), &["select max(error_ns) as n from clocks"]);
        assert!(matches!(output.status.code(), Some(0 | 2)), "{at}: {output:?}");
    }
}

#[test]
fn a_question_that_needs_too_much_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let off: Vec<_> = (0..6_000).map(Some).collect();
    day(folder.path(), "2026-11-22", "a", "tsc", &off);
    // An array of 36 million numbers, which cannot go to the disk.
    let pairs = "select count(x) as n from (select array_agg(one.error_ns * 6000 + other.error_ns) as x \
                 from clocks as one cross join clocks as other)";
    let said = refused(folder.path(), &[pairs, "--memory", "256"]);
    assert!(said.contains("--memory (it was 256 MB)"), "{said}");
    assert!(refused(folder.path(), &["worst-clocks", "--memory", "10"]).contains("256 or more"));
}
