//! Whether a Parquet file is what it claims, before it is asked: an engine trusts a file's
//! directory, which says how many rows there are and where.
//!
//! What the rows of one column take is looked up page by page, without reading them: each
//! page has a heading of some bytes, which says how many values follow.

use std::collections::BTreeMap;
use std::fs::File;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, Schema};
use parquet::arrow::parquet_to_arrow_schema;
use parquet::basic::Type;
use parquet::column::page::PageReader;
use parquet::errors::ParquetError;
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader, RowGroupMetaData};
use parquet::file::reader::ChunkReader;
use parquet::file::serialized_reader::SerializedPageReader;

use crate::failure::Failure;
use crate::folder::Records;

/// The column that every file of records has.
const TIME: &str = "unix_s";
/// The end of a file: the length of its directory, and "PAR1".
const END_BYTES: u64 = 8;
/// So many are named of those that are none.
const NAMED: usize = 5;

/// A column, and the file in which it was seen first.
type Columns = BTreeMap<String, (DataType, PathBuf)>;

/// The columns of all files.
pub(crate) fn columns(records: &Records) -> Result<Schema, Failure> {
    let (mut columns, mut wrong) = (Columns::new(), Vec::new());
    // What panics is told as all else is.
    let told = panic::take_hook();
    panic::set_hook(Box::new(|_| {}));
    for path in &records.files {
        let checked = panic::catch_unwind(AssertUnwindSafe(|| one(path, records.by_path)));
        let checked = checked.unwrap_or_else(|_| Err("is damaged".to_owned()));
        if let Err(why) = checked.and_then(|schema| add(&mut columns, &schema, path)) {
            wrong.push(format!("{} {why}", path.display()));
        }
    }
    panic::set_hook(told);
    if !wrong.is_empty() {
        let more = match wrong.len().saturating_sub(NAMED) {
            0 => String::new(),
            more => format!("\n  and {more} more"),
        };
        wrong.truncate(NAMED);
        let remedy = "without them (`mv`): an answer would be wrong or lack what was cut off; \
                      copy them again from their machines";
        return Err(Failure::new(wrong.join("\n  ") + &more, remedy));
    }
    let field = |(name, (kind, _))| Field::new(name, kind, true);
    Ok(Schema::new(columns.into_iter().map(field).collect::<Vec<_>>()))
}

fn add(columns: &mut Columns, schema: &Schema, path: &Path) -> Result<(), String> {
    for field in schema.fields() {
        let here = || (field.data_type().clone(), path.to_owned());
        let (kind, first) = columns.entry(field.name().clone()).or_insert_with(here);
        if kind != field.data_type() {
            return Err(format!(
                "has {} as {}, and {} as {kind}",
                field.name(),
                field.data_type(),
                first.display()
            ));
        }
    }
    Ok(())
}

/// The columns of a file.
fn one(path: &Path, by_path: &[&str]) -> Result<Schema, String> {
    let cannot = |why: std::io::Error| format!("cannot be read: {why}");
    let file = File::open(path).map_err(cannot)?;
    let length = file.metadata().map_err(cannot)?.len();
    whole(&file, length)?;
    let damaged = |why: ParquetError| format!("is damaged: {why}");
    let about = ParquetMetaDataReader::new().parse_and_finish(&file).map_err(damaged)?;
    let described = about.file_metadata().schema_descr();
    let time = described.columns().iter().position(|column| column.name() == TIME);
    let is_time = |at: &usize| described.column(*at).physical_type() == Type::INT64;
    let Some(time) = time.filter(is_time) else {
        return Err(format!("is no file of records: it has no {TIME} of 64 bits"));
    };
    let schema = parquet_to_arrow_schema(described, None).map_err(damaged)?;
    if let Some(twice) = by_path.iter().find(|name| schema.field_with_name(name).is_ok()) {
        return Err(format!("has a column {twice}, which its folder says"));
    }
    rows(&Arc::new(file), length, &about, time)?;
    Ok(schema)
}

/// It has Parquet's end, and is as long as that says.
fn whole(file: &File, length: u64) -> Result<(), String> {
    let none = |what: String| Err(format!("is cut short, or no Parquet file: {what}"));
    let Some(at) = length.checked_sub(END_BYTES) else {
        return none(format!("it has {length} bytes"));
    };
    let end = file.get_bytes(at, END_BYTES as usize).map_err(|why| why.to_string())?;
    let Some((directory, b"PAR1")) = end.split_first_chunk::<4>() else {
        return none(format!(
            "it ends with {:?}, not with \"PAR1\"",
            String::from_utf8_lossy(&end)
        ));
    };
    let directory = u64::from(u32::from_le_bytes(*directory));
    if directory > at {
        return none(format!("it says that its directory has {directory} of its {length} bytes"));
    }
    Ok(())
}

/// The directory contradicts neither itself nor the pages.
fn rows(file: &Arc<File>, length: u64, about: &ParquetMetaData, time: usize) -> Result<(), String> {
    let mut all: i64 = 0;
    for (number, group) in about.row_groups().iter().enumerate() {
        let claimed = group.num_rows();
        let wrong = |what: String| Err(format!("is damaged: its group {number} {what}"));
        all = all.saturating_add(claimed);
        for column in group.columns() {
            let (begin, bytes) = column.byte_range();
            if begin.checked_add(bytes).is_none_or(|end| end > length) {
                return wrong(format!("ends after its {length} bytes"));
            }
        }
        let found = found(file, group, time).map_err(|why| format!("is damaged: {why}"))?;
        if found != claimed {
            return wrong(format!("has {found} rows where its directory says {claimed}"));
        }
    }
    let claimed = about.file_metadata().num_rows();
    if all != claimed {
        return Err(format!("is damaged: it has {all} rows where its directory says {claimed}"));
    }
    Ok(())
}

/// The rows of a group, by the headings of a column's pages.
fn found(file: &Arc<File>, group: &RowGroupMetaData, time: usize) -> Result<i64, ParquetError> {
    let rows = usize::try_from(group.num_rows())?;
    let mut pages = SerializedPageReader::new(Arc::clone(file), group.column(time), rows, None)?;
    let mut found: i64 = 0;
    while let Some(page) = pages.peek_next_page()? {
        let values = page.num_levels.or(page.num_rows).unwrap_or(0);
        found = found.saturating_add(i64::try_from(values)?);
        pages.skip_next_page()?;
    }
    Ok(found)
}
