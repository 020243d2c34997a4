//! What a folder holds: rows of a table, whose columns are texts and whole numbers.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// A row of a table. Day and host are columns by their folders.
pub trait Row: Serialize + DeserializeOwned + 'static {
    /// How the names of its files begin.
    const FILES: &'static str;
    /// Rows of a group in a Parquet file, which are in memory while it is made.
    const GROUP_ROWS: usize;
    /// The columns of text.
    const TEXTS: &'static [RowColumn<Self, Option<String>>];
    /// The columns of numbers that may be unknown.
    const NUMBERS: &'static [RowColumn<Self, Option<i64>>];

    /// When, by this clock: Unix time, s. The first column.
    fn unix_s(&self) -> i64;
}

/// A column of a table.
#[derive(Debug)]
pub struct RowColumn<R, T> {
    /// Its name.
    pub name: &'static str,
    /// Its value in a row.
    pub of: fn(&R) -> &T,
}

/// Makes a row of its columns.
macro_rules! row {
    (
        $(#[doc = $doc:literal])+ $row:ident of $files:literal, groups of $group:literal;
        texts: $($(#[doc = $text_doc:literal])+ $text:ident),+;
        numbers: $($(#[doc = $number_doc:literal])+ $number:ident),+;
    ) => {
        $(#[doc = $doc])+
        #[derive(Debug, Clone, Default, PartialEq, Eq, ::serde::Serialize, ::serde::Deserialize)]
        pub struct $row {
            /// When, by this clock: Unix time, s.
            pub unix_s: i64,
            $($(#[doc = $text_doc])+ #[serde(skip_serializing_if = "Option::is_none")]
            pub $text: Option<String>,)+
            $($(#[doc = $number_doc])+ #[serde(skip_serializing_if = "Option::is_none")]
            pub $number: Option<i64>,)+
        }

        impl $crate::row::Row for $row {
            const FILES: &'static str = $files;
            const GROUP_ROWS: usize = $group;
            const TEXTS: &'static [$crate::row::RowColumn<Self, Option<String>>] = &[
                $($crate::row::RowColumn { name: stringify!($text), of: |row| &row.$text }),+
            ];
            const NUMBERS: &'static [$crate::row::RowColumn<Self, Option<i64>>] = &[
                $($crate::row::RowColumn { name: stringify!($number), of: |row| &row.$number }),+
            ];

            fn unix_s(&self) -> i64 {
                self.unix_s
            }
        }

        impl $row {
            /// The number of this column.
            pub fn number(&mut self, name: &str) -> Option<&mut Option<i64>> {
                match name {
                    $(stringify!($number) => Some(&mut self.$number),)+
                    _ => None,
                }
            }
        }
    };
}

pub(crate) use row;
