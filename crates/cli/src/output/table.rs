//! A table, described once, and rendered as text.

use std::sync::atomic::{AtomicU16, Ordering};

use comfy_table::{
    CellAlignment, ColumnConstraint, ContentArrangement, ContentLineStyle, LineStyle, TableStyle,
    Width,
};

use super::printable;
pub(crate) use facts::parse::wrap;

/// Tables for people are at most this wide on any terminal: people paste them
/// into tickets and mails.
const WIDTH: u16 = 80;

/// No narrower either: a figure with its unit and a path's part still fit.
const NARROWEST: u16 = 40;

/// How wide tables are: narrower than [`WIDTH`] on a narrow terminal.
static TERMINAL: AtomicU16 = AtomicU16::new(WIDTH);

/// From here on, text is not wider than the terminal that it goes to.
pub(crate) fn fit_terminal() {
    if let Ok(terminal) = rustix::termios::tcgetwinsize(std::io::stdout())
        && terminal.ws_col > 0
    {
        TERMINAL.store(terminal.ws_col.clamp(NARROWEST, WIDTH), Ordering::Relaxed);
    }
}

/// The columns that text for people may take.
pub(crate) fn width() -> usize {
    TERMINAL.load(Ordering::Relaxed).into()
}

/// No lines but a rule under the heading; two blanks separate the columns.
const STYLE: TableStyle = TableStyle::new()
    .header_lines(ContentLineStyle::none())
    .header_separator(LineStyle::none().fill('─').junction('─'))
    .content_lines(ContentLineStyle::none());

/// A table with its title and notes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ReportTable {
    title: String,
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
    notes: Vec<String>,
}

/// One column: its heading, its unit, and whether it holds figures.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Column {
    heading: String,
    unit: Option<String>,
    figures: bool,
    keep: bool,
}

impl Column {
    /// A column of words, aligned left, wrapped where the table is too wide.
    pub(crate) fn words(heading: impl Into<String>) -> Self {
        Self { heading: heading.into(), unit: None, figures: false, keep: false }
    }

    /// A column of names, aligned left and never broken.
    pub(crate) fn names(heading: impl Into<String>) -> Self {
        Self { keep: true, ..Self::words(heading) }
    }

    /// A column of figures, aligned right and never broken.
    pub(crate) fn figures(heading: impl Into<String>, unit: &str) -> Self {
        let unit = (!unit.is_empty()).then(|| unit.to_owned());
        Self { unit, figures: true, ..Self::names(heading) }
    }

    fn heading_over_unit(&self) -> String {
        match &self.unit {
            Some(unit) => format!("{}\n{unit}", self.heading),
            None => self.heading.clone(),
        }
    }
}

/// The text of one cell.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Cell(String);

impl Cell {
    /// A figure with `digits` after the point.
    pub(crate) fn figure(value: f64, digits: usize) -> Self {
        Self(format!("{value:.digits$}"))
    }

    /// No figure: a dash. A note gives the reason.
    pub(crate) fn none() -> Self {
        Self("–".into())
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(words: T) -> Self {
        Self(printable(&words.into()))
    }
}

impl ReportTable {
    /// An empty table; an empty `title` is not printed.
    pub(crate) fn new(title: impl Into<String>, columns: impl IntoIterator<Item = Column>) -> Self {
        Self {
            title: title.into(),
            columns: columns.into_iter().collect(),
            rows: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// A table of these rows, with what each column shows of one.
    pub(crate) fn with_rows<R: Copy, const N: usize>(
        title: impl Into<String>,
        rows: impl IntoIterator<Item = R>,
        columns: [(Column, &dyn Fn(R) -> Cell); N],
    ) -> Self {
        let cells = columns.each_ref().map(|column| column.1);
        let mut table = Self::new(title, columns.map(|column| column.0));
        rows.into_iter().for_each(|row| table.row(cells.map(|cell| cell(row))));
        table
    }

    /// Adds a row, which has a cell for each column.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        let cells: Vec<_> = cells.into_iter().collect();
        debug_assert_eq!(cells.len(), self.columns.len(), "a cell for each column");
        self.rows.push(cells);
    }

    /// Adds a line below the table.
    pub(crate) fn note(&mut self, note: impl Into<String>) {
        self.notes.push(printable(&note.into()));
    }

    /// Whether it has no row.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// For people: at most [`width`] columns.
    pub(crate) fn text(&self) -> String {
        let mut table = comfy_table::Table::new();
        table.load_style(STYLE).set_width(TERMINAL.load(Ordering::Relaxed));
        table.set_content_arrangement(ContentArrangement::Dynamic);
        table.set_header(self.columns.iter().map(Column::heading_over_unit));
        for row in &self.rows {
            table.add_row(row.iter().map(|cell| cell.0.as_str()));
        }
        for (column, drawn) in self.columns.iter().zip(table.column_iter_mut()) {
            drawn.set_padding((0, 1));
            if column.figures {
                drawn.set_cell_alignment(CellAlignment::Right);
            }
            if column.keep {
                drawn.set_constraint(ColumnConstraint::ContentWidth);
            } else {
                drawn.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(12)));
            }
        }
        let mut text = String::new();
        if !self.title.is_empty() {
            text.extend([wrap(&self.title, width()).as_str(), "\n"]);
        }
        text.push_str(&table.trim_fmt());
        text.push('\n');
        for note in &self.notes {
            text.extend([wrap(note, width()).as_str(), "\n"]);
        }
        text
    }
}

#[cfg(test)]
mod tests;
