//! What to do about a fleet that cannot be simulated.

use serde::de::IgnoredAny;
use simulator::Impossible;
use simulator::scenario::{MOST_DAYS, MOST_GUESTS, STREAMS, Table};

use crate::error::CliError;

/// Where each of a table's entries is in the text.
#[derive(Default, serde::Deserialize)]
#[serde(default)]
struct Places {
    fault: Vec<toml::Spanned<IgnoredAny>>,
    event: Vec<toml::Spanned<IgnoredAny>>,
}

/// The line of what cannot be, if it is one entry's.
fn line(source: &str, why: Impossible) -> Option<usize> {
    let (table, index) = match why {
        Impossible::Length(index, ..) | Impossible::Never(index) => (Table::Fault, index),
        Impossible::NoServer(table, index, _) => (table, index),
        _ => return None,
    };
    let places: Places = toml::from_str(source).ok()?;
    let entries = if table == Table::Fault { places.fault } else { places.event };
    let before = source.get(..entries.get(index)?.span().start)?;
    Some(before.matches('\n').count() + 1)
}

pub(super) fn impossible(name: &str, source: &str, why: Impossible) -> CliError {
    let name = line(source, why).map_or_else(|| name.to_owned(), |line| format!("{name}:{line}"));
    let (cause, remedy) = match why {
        Impossible::Guests(guests) => (
            format!("a fleet of {guests} guests cannot be simulated"),
            format!("--guests with 1 to {MOST_GUESTS}"),
        ),
        Impossible::Days(days) => (
            format!("{days} days cannot be simulated"),
            format!("--days with more than 0 and at most {MOST_DAYS}"),
        ),
        Impossible::Servers(count) => {
            (format!("{count} servers are more than a guest asks"), "8 [[server]] at most".into())
        }
        Impossible::NoDiscipline => (
            "`disciplines` is empty".into(),
            "some of none, pll, keeper, regression, beside".into(),
        ),
        Impossible::Length(_, from, to) => (
            format!("a fault's length_s is from {from} to {to} s"),
            "the shorter length first".into(),
        ),
        Impossible::Never(_) => (
            "a fault has neither per_day nor at_s, and would never happen".into(),
            "`per_day`, how often at random, or `at_s`, when".into(),
        ),
        Impossible::NoServer(_, _, server) => (
            format!("something happens to server {server}, and there are fewer"),
            "the server's place in the list, from 0".into(),
        ),
        Impossible::OtherStreams(version) => (
            format!(
                "its seed is of version {version} of the random streams; this program has {}: \
                 another fleet",
                STREAMS.0
            ),
            "the program that printed it, or the whole scenario under another seed".into(),
        ),
    };
    CliError::Failed { cause: format!("{name}: {cause}"), remedy }
}
