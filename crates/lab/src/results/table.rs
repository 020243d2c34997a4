//! The table of an experiment: text, JSON and the summary are all made from it.

use std::cmp::Ordering::Equal;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// How people see the values of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ColumnForm {
    /// Words, wrapped where the table is too wide.
    Words,
    /// A name, never broken.
    Name,
    /// A number of things.
    Count,
    /// ns, in the unit that fits.
    Nanos,
    /// With so many digits after the point.
    Digits(usize),
    /// With three significant digits.
    Significant,
}

/// One column.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ResultColumn {
    /// The key of its values in a row; `cycles.min` is within `cycles`.
    pub key: String,
    /// What stands above it.
    pub heading: String,
    /// The unit of its values, unless the form has it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub unit: String,
    /// How people see them.
    pub form: ColumnForm,
}

/// A row: the values of the columns, and others that only programs read.
pub type ResultRow = Map<String, Value>;

/// What an experiment measured.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ResultTable {
    /// What it is about.
    pub title: String,
    /// The columns that people see.
    pub columns: Vec<ResultColumn>,
    /// The rows.
    pub rows: Vec<ResultRow>,
    /// The column of which the largest value, either way, is the summary's figure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worst: Option<String>,
    /// What the columns mean.
    pub notes: Vec<String>,
}

impl ResultTable {
    /// A table of these rows; a column is its key, heading, unit and form.
    pub(crate) fn new<R: Serialize>(
        title: &str,
        columns: &[(&str, &str, &str, ColumnForm)],
        rows: &[R],
    ) -> Self {
        let columns = columns.iter().map(|&(key, heading, unit, form)| ResultColumn {
            key: key.to_owned(),
            heading: heading.to_owned(),
            unit: unit.to_owned(),
            form,
        });
        let rows = rows.iter().map(|row| match serde_json::to_value(row) {
            Ok(Value::Object(row)) => row,
            _ => ResultRow::new(),
        });
        let (columns, rows) = (columns.collect(), rows.collect());
        Self { title: title.to_owned(), columns, rows, ..Self::default() }
    }

    /// With this column's largest value in the summary.
    pub(crate) fn worst(self, key: &str) -> Self {
        Self { worst: Some(key.to_owned()), ..self }
    }

    /// With a line below it.
    pub(crate) fn note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }

    /// The column of the summary's figure and the row of its largest value, either way; the last
    /// of equal ones.
    pub fn worst_row(&self) -> Option<(&ResultColumn, &ResultRow)> {
        let key = self.worst.as_ref()?;
        let column = self.columns.iter().find(|column| column.key == *key)?;
        let size = |row: &&ResultRow| column.value(row).as_f64().map(f64::abs);
        let rows = self.rows.iter().filter(|row| size(row).is_some());
        Some((column, rows.max_by(|a, b| size(a).partial_cmp(&size(b)).unwrap_or(Equal))?))
    }
}

impl ResultColumn {
    /// Its value in a row; null where the row has none.
    pub fn value<'r>(&self, row: &'r ResultRow) -> &'r Value {
        let mut keys = self.key.split('.');
        let first = keys.next().and_then(|key| row.get(key)).unwrap_or(&Value::Null);
        keys.fold(first, |value, key| &value[key])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_finds_its_values_and_the_largest_either_way() {
        let rows = [
            serde_json::json!({"clock": "tsc", "error": {"ns": 3.0}}),
            serde_json::json!({"clock": "pit", "error": {"ns": -7.5}}),
            serde_json::json!({"clock": "rtc", "error": null}),
        ];
        let columns = [("error.ns", "error", "", ColumnForm::Nanos)];
        let table = ResultTable::new("Errors", &columns, &rows);
        assert_eq!(table.worst_row(), None);
        let table = table.worst("error.ns");
        let (column, row) = table.worst_row().unwrap();
        assert_eq!((&row["clock"], column.value(row)), (&"pit".into(), &(-7.5).into()));
        assert_eq!(column.value(&table.rows[2]), &Value::Null);
    }
}
