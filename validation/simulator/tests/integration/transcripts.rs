//! What kernels of user-mode Linux did with random programs of adjtimex, one transcript of each
//! (testdata/timekeeper, recorded by `guest-timex` at commit 128cbb5a): the model does the same.

mod lines;
mod replay;
mod seen;

use std::fs;
use std::path::Path;

use replay::{Counter, replay};

fn transcripts() -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/timekeeper");
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let texts = files.filter(|path| path.extension().is_some_and(|extension| extension == "txt"));
    texts.map(|path| (path.display().to_string(), fs::read_to_string(path).unwrap())).collect()
}

#[test]
fn the_recorded_kernels_did_what_the_model_does() {
    let transcripts = transcripts();
    assert_eq!(transcripts.len(), 3);
    for (name, text) in transcripts {
        let outcome = replay(&text, Counter::of(&text).unwrap());
        assert_eq!(outcome.differences, [""; 0], "{name}");
        let rows = seen::ROWS.iter().map(|(row, _)| *row).chain(seen::SET);
        let unseen: Vec<_> = rows.filter(|row| !outcome.seen.contains_key(row)).collect();
        assert_eq!(unseen, [""; 0], "{name}: not shown by the transcript");
    }
}

#[test]
fn a_field_that_differs_is_told() {
    let (_, text) = transcripts().remove(0);
    let line = text.lines().rfind(|line| line.starts_with("adjust ")).unwrap();
    let mut words: Vec<&str> = line.split(' ').collect();
    // The maximum error that came out.
    words[17] = "777";
    let wrong = text.replace(line, &words.join(" "));
    let outcome = replay(&wrong, Counter::of(&wrong).unwrap());
    assert_eq!(outcome.differences.len(), 1, "{:?}", outcome.differences);
}

#[test]
fn a_clock_that_differs_is_told() {
    let (_, text) = transcripts().remove(0);
    let counter = Counter::of(&text).unwrap();
    let reading = text.lines().filter(|line| line.starts_with("tai ")).nth(3).unwrap();
    let number = reading.split(' ').nth(2).unwrap();
    let ns: i64 = number.parse().unwrap();
    let moved = |by: i64| {
        let wrong = text.replacen(number, &(ns + by).to_string(), 1);
        replay(&wrong, counter).differences.len()
    };
    assert_eq!((moved(0), moved(2_000_000), moved(-2_000_000)), (0, 1, 1));
}
