//! What to do about a fleet that cannot be simulated.

use simulator::Impossible;
use simulator::scenario::{MOST_DAYS, MOST_GUESTS, STREAMS};

use crate::error::CliError;

pub(super) fn impossible(name: &str, why: Impossible) -> CliError {
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
        Impossible::Length(from, to) => (
            format!("a fault's length_s is from {from} to {to} s"),
            "the shorter length first".into(),
        ),
        Impossible::NoServer(server) => (
            format!("a fault is of server {server}, and there are fewer"),
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
