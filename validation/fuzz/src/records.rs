//! Files of comparisons: an error, or exactly the comparisons that were
//! written.

use std::io::Cursor;

use bytes::Bytes;
use records::folder::{lines as folder_lines, packed as folder_packed};
use records::parquet;
use records::text::{self, LineForm};
use records::{Damage, Minute, Record};

/// As CSV or JSON lines, and as a Parquet file.
pub(crate) fn drift_records(data: &[u8]) {
    lines(data);
    if let Ok(records) = packed(data.to_vec()) {
        assert_eq!(packed(written(&records)), Ok(records));
    }
}

/// A daemon's lines: those that are minutes are the same once written again.
pub(crate) fn minutes(data: &[u8]) {
    let read = |data: &[u8]| {
        let mut minutes = Vec::new();
        let packed = folder_lines::read(data, |minute: Minute| {
            minutes.push(minute);
            true
        });
        (minutes, packed.expect("memory is read"))
    };
    let (minutes, packed) = read(data);
    assert_eq!(packed.rows, minutes.len() as u64);
    let mut again = Vec::new();
    let mut writer = folder_packed::Writer::new(Vec::new()).expect("memory takes all");
    for minute in &minutes {
        again.extend(folder_lines::line(minute));
        writer.put(minute.clone()).expect("memory takes all");
    }
    writer.finish().expect("memory takes all");
    assert_eq!(read(&again).0, minutes);
}

fn lines(data: &[u8]) {
    let mut records = Vec::new();
    let Ok(whole) = text::read(data, |record| records.push(record)) else { return };
    let lines = records.iter().map(|record| whole.form.line(record).expect("it was a line"));
    let again: String = [whole.form.opening()].into_iter().chain(lines).collect();
    let kept = usize::try_from(whole.bytes).expect("as long as its bytes");
    assert_eq!(whole.bytes + whole.cut_bytes, data.len() as u64);
    if whole.form == LineForm::Csv {
        assert_eq!(again.as_bytes(), &data[..kept]);
    }
    let mut second = Vec::new();
    text::read(again.as_bytes(), |record| second.push(record)).expect("lines of ours");
    assert_eq!(second, records);
    assert_eq!(packed(written(&records)), Ok(records));
}

fn packed(bytes: Vec<u8>) -> Result<Vec<Record>, Damage> {
    let mut records = Vec::new();
    parquet::read(Bytes::from(bytes), |record| records.push(record))?;
    Ok(records)
}

fn written(records: &[Record]) -> Vec<u8> {
    let mut writer = parquet::Writer::new(Cursor::new(Vec::new())).expect("memory takes all");
    for record in records {
        writer.put(record.clone()).expect("memory takes all");
    }
    writer.finish().expect("memory takes all").into_inner()
}
