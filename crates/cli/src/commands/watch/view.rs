//! The live view: the state above, the events below.

use std::collections::VecDeque;
use std::io::Stdin;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use disruptions::text::{span, time_of_day};
use disruptions::{page_fact, seconds};
use instruments::steps::page::age_ns;
use ratatui::crossterm::event::{self as terminal, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Style, Stylize};
use ratatui::text::{Line as Row, Span};
use ratatui::widgets::{Block, Borders, Paragraph};
use ratatui::{DefaultTerminal, Frame};

use super::event::Line;
use super::screen::{PlainLines, WatchScreen, WatchState};
use super::text;
use crate::error::CliError;
use crate::output::printable;

/// Least time between two drawings without an event: drawing costs more than
/// sampling.
const DRAW_INTERVAL: Duration = Duration::from_millis(500);

/// Lines kept; a screen holds fewer.
const KEPT: usize = 500;

/// Lines printed at the end: the terminal clears what the view showed.
const PRINTED: usize = 20;

/// Width of the labels.
const LABEL: usize = 12;

/// The view, until it is dropped.
pub(super) struct LiveView {
    terminal: DefaultTerminal,
    stdin: Stdin,
    rows: Vec<(&'static str, String)>,
    lines: VecDeque<Line>,
    drawn: Option<Instant>,
    dirty: bool,
    is_open: bool,
}

impl LiveView {
    /// Takes over the terminal. ratatui restores it when this program panics,
    /// `drop` in any other case.
    pub(super) fn new(started: &Line) -> Result<Self, CliError> {
        let terminal = ratatui::try_init().map_err(|error| CliError::Failed {
            cause: format!("cannot use this terminal for the live view: {error}"),
            remedy: "run `parachron watch --plain`".into(),
        })?;
        let opening = text::line(started).lines().next().unwrap_or_default().to_owned();
        Ok(Self {
            terminal,
            stdin: std::io::stdin(),
            rows: vec![("watching", opening)],
            lines: VecDeque::new(),
            drawn: None,
            dirty: true,
            is_open: true,
        })
    }

    fn close(&mut self) {
        if std::mem::replace(&mut self.is_open, false) {
            ratatui::restore();
        }
    }

    fn draw(&mut self) -> Result<(), CliError> {
        let (rows, lines) = (&self.rows, &self.lines);
        self.terminal.draw(|frame| draw(frame, rows, lines))?;
        self.drawn = Some(Instant::now());
        self.dirty = false;
        Ok(())
    }
}

impl Drop for LiveView {
    fn drop(&mut self) {
        self.close();
    }
}

impl WatchScreen for LiveView {
    fn lines(&mut self, lines: &[Line]) -> Result<(), CliError> {
        self.lines.extend(lines.iter().cloned());
        let surplus = self.lines.len().saturating_sub(KEPT);
        self.lines.drain(..surplus);
        self.dirty |= !lines.is_empty();
        Ok(())
    }

    fn state(&mut self, shown: &WatchState<'_>) -> Result<(), CliError> {
        if !self.dirty && self.drawn.is_some_and(|drawn| drawn.elapsed() < DRAW_INTERVAL) {
            return Ok(());
        }
        self.rows = rows(shown);
        self.draw()
    }

    fn keys(&self) -> Option<BorrowedFd<'_>> {
        Some(self.stdin.as_fd())
    }

    fn ends_by_key(&mut self) -> Result<bool, CliError> {
        let mut ends = false;
        while terminal::poll(Duration::ZERO)? {
            match terminal::read()? {
                terminal::Event::Key(key) if key.kind != KeyEventKind::Release => {
                    let control = key.modifiers.contains(KeyModifiers::CONTROL);
                    ends |= match key.code {
                        KeyCode::Char('q') | KeyCode::Esc => true,
                        // In raw mode Ctrl-C is a key, not a signal.
                        KeyCode::Char('c') => control,
                        _ => false,
                    };
                }
                terminal::Event::Resize(..) => self.draw()?,
                _ => {}
            }
        }
        Ok(ends)
    }

    /// Prints the last events and the summary, to be scrolled to.
    fn finish(&mut self, lines: &[Line]) -> Result<(), CliError> {
        self.close();
        let mut kept: Vec<Line> = self.lines.drain(..).collect();
        kept.drain(..kept.len().saturating_sub(PRINTED));
        kept.extend(lines.iter().cloned());
        PlainLines::default().lines(&kept)
    }
}

/// The state, label by label.
fn rows(shown: &WatchState<'_>) -> Vec<(&'static str, String)> {
    let WatchState { sample, watched } = shown;
    let age = sample.page.value().zip(sample.tsc).and_then(|(page, tsc)| age_ns(page, tsc).ok());
    let unknown = |why: Option<&facts::Unknown>| why.map(ToString::to_string);
    let summary = watched.summary();
    let source = sample.source.value().cloned().or_else(|| unknown(sample.source.unknown()));
    let page_text = sample.page.value().map(|info| text::page(&page_fact(info), age.map(seconds)));
    let adjtimex = sample.adjtimex.value().map(text::adjtimex);
    let updates = summary.page.as_ref().map_or(0, |page| page.updates);
    let steps: u64 = summary.steps.iter().map(|steps| steps.steps).sum();
    vec![
        ("time", format!("{} UTC", time_of_day(sample.unix_ns))),
        ("clocksource", source.unwrap_or_default()),
        ("page", page_text.or_else(|| unknown(sample.page.unknown())).unwrap_or_default()),
        ("adjtimex", adjtimex.or_else(|| unknown(sample.adjtimex.unknown())).unwrap_or_default()),
        (
            "TSC",
            match watched.observer().tsc_hz() {
                Some(hz) => format!("{:.6} MHz by CLOCK_MONOTONIC_RAW", hz / 1e6),
                None => "rate not yet known".into(),
            },
        ),
        (
            "watched",
            format!(
                "{}, {} samples; {updates} page updates, {steps} steps, {} clocksource changes",
                span(summary.ran_s),
                summary.samples,
                summary.clocksource_changes,
            ),
        ),
    ]
}

fn draw(frame: &mut Frame<'_>, rows: &[(&'static str, String)], lines: &VecDeque<Line>) {
    // One more for the border.
    let height = u16::try_from(rows.len() + 1).unwrap_or(u16::MAX);
    let [above, below, foot] =
        Layout::vertical([Constraint::Length(height), Constraint::Min(1), Constraint::Length(1)])
            .areas(frame.area());
    let state: Vec<Row<'_>> = rows
        .iter()
        .map(|(label, value)| {
            let label = Span::styled(format!("{label:<LABEL$}"), Style::new().bold());
            Row::from(vec![label, Span::raw(printable(value))])
        })
        .collect();
    let block = Block::new().borders(Borders::BOTTOM).title_bottom(" events ");
    frame.render_widget(Paragraph::new(state).block(block), above);

    // The newest at the bottom, as many as there is room for.
    let texts: Vec<String> = lines.iter().map(text::line).collect();
    let all: Vec<&str> = texts.iter().flat_map(|text| text.lines()).collect();
    let room = usize::from(below.height);
    let newest: Vec<Row<'_>> =
        all[all.len().saturating_sub(room)..].iter().map(|line| Row::raw(*line)).collect();
    frame.render_widget(Paragraph::new(newest), below);
    frame.render_widget(Row::raw("q quits; clocks are read, not changed").dim(), foot);
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use disruptions::{Event, LateCause};

    use super::super::event::WatchEvent;
    use super::*;

    fn drawn(width: u16, height: u16, lines: &VecDeque<Line>) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        let rows = [("source", "tsc".to_owned()), ("page", "version \u{1b}[31m32".to_owned())];
        terminal.draw(|frame| draw(frame, &rows, lines)).unwrap();
        terminal.backend().to_string()
    }

    fn late(gap_s: f64) -> Line {
        Line {
            at_unix_ns: Some(0),
            at_monotonic_ns: 0,
            event: WatchEvent::Change(Event::Late { gap_s, cause: LateCause::Unknown }),
        }
    }

    #[test]
    fn the_newest_events_are_shown_at_the_bottom() {
        let lines = (0..30).map(|s| late(f64::from(s))).collect();
        let screen = drawn(60, 10, &lines);
        assert!(
            screen.contains("no sample for 29.0 s") && !screen.contains("no sample for 10.0 s")
        );
        assert!(screen.contains("source      tsc") && screen.contains("q quits"), "{screen}");
        assert!(!screen.contains('\u{1b}'));
    }

    #[test]
    fn no_screen_is_too_small() {
        for (width, height) in [(1, 1), (5, 2), (200, 3)] {
            drawn(width, height, &[late(1.0)].into());
        }
    }
}
