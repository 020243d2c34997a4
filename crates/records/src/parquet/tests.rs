use std::io::Cursor;

use bytes::Bytes;
use proptest::prelude::*;

use super::*;

fn written(records: &[Record]) -> Vec<u8> {
    let mut writer = Writer::new(Cursor::new(Vec::new())).unwrap();
    for record in records {
        writer.put(record.clone()).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

fn read_back(bytes: Vec<u8>) -> Result<Vec<Record>, Damage> {
    let mut records = Vec::new();
    read(Bytes::from(bytes), |record| records.push(record))?;
    Ok(records)
}

fn sample(n: u64) -> Record {
    let outside = if n.is_multiple_of(2) { "clock" } else { "reference" };
    let boot = format!("boot {}", n / 50_000);
    let times = [n, n * 1_000_000_007, u64::MAX - n, 1_795_000_000_000_000_000 + n];
    Record::of_columns([&boot, "ntp [::1]:123, \"ä\"", "monotonic", outside], times).unwrap()
}

#[test]
fn what_is_written_is_read_over_several_groups() {
    for count in [0, 1, BATCH_ROWS as u64, GROUP_ROWS as u64, GROUP_ROWS as u64 * 2 + 5] {
        let records: Vec<Record> = (0..count).map(sample).collect();
        assert!(read_back(written(&records)).unwrap() == records, "{count}");
    }
}

#[test]
fn columns_have_types_and_names_with_units() {
    let bytes = Bytes::from(written(&[sample(1)]));
    let reader = SerializedFileReader::new(bytes).unwrap();
    let schema = reader.metadata().file_metadata().schema_descr();
    let columns: Vec<String> = schema
        .columns()
        .iter()
        .map(|column| format!("{} {:?}", column.name(), column.logical_type_ref()))
        .collect();
    assert_eq!(columns[0], "boot Some(String)");
    assert!(columns[4].starts_with("clock_before_ns Some(Integer"), "{columns:?}");
    assert!(columns[4].contains("64") && columns[4].contains("false"), "{columns:?}");
    assert_eq!(columns.len(), 8);
}

#[test]
fn every_changed_or_missing_byte_is_noticed() {
    let bytes = written(&(0..100).map(sample).collect::<Vec<_>>());
    for place in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[place] ^= 0x10;
        let damage = read_back(changed).unwrap_err();
        match place {
            0..9 => assert!(matches!(damage, Damage::NoRecords { .. }), "{place}: {damage}"),
            9..12 => assert!(matches!(damage, Damage::OtherVersion { .. }), "{place}: {damage}"),
            12..20 => assert!(matches!(damage, Damage::CutShort { .. }), "{place}: {damage}"),
            _ => assert!(matches!(damage, Damage::Changed { .. }), "{place}: {damage}"),
        }
        let damage = read_back(bytes[..place].to_vec()).unwrap_err();
        match place {
            0 => assert!(matches!(damage, Damage::NoRecords { .. }), "{place}: {damage}"),
            1..SEAL_BYTES => assert_eq!(
                damage.to_string(),
                "is damaged: it ends within its first 24 bytes",
                "{place}"
            ),
            _ => assert!(matches!(damage, Damage::CutShort { .. }), "{place}: {damage}"),
        }
    }
}

/// Changed, and sealed as if it had been written so.
#[test]
fn a_forged_file_is_an_error_or_comparisons() {
    let bytes = written(&(0..20).map(sample).collect::<Vec<_>>());
    let mut refused = 0;
    for place in SEAL_BYTES..bytes.len() {
        let mut forged = bytes.clone();
        forged[place] ^= 0x10;
        let checksum = checksum(&forged[SEAL_BYTES..]).unwrap();
        let seal = Seal { length: forged.len() as u64, checksum }.bytes();
        forged[..SEAL_BYTES].copy_from_slice(&seal);
        refused += usize::from(read_back(forged).is_err());
    }
    assert!(refused > 100, "{refused} of {}", bytes.len());
}

#[test]
fn a_parquet_file_of_others_is_told() {
    let other = read_back(b"PAR1\x15\x04\x15\x10\x15\x14\x4c\x15\x02PAR1".to_vec()).unwrap_err();
    assert!(other.to_string().starts_with("is not a record of parachron drift"), "{other}");
}

proptest! {
    #[test]
    fn any_bytes_are_refused(bytes in any::<Vec<u8>>()) {
        prop_assert!(read_back(bytes).is_err());
    }
}
