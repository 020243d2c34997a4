//! What to do about a fleet that cannot be simulated.

use simulator::scenario::{MOST_DAYS, MOST_GUESTS};
use simulator::{Impossible, file};

use crate::error::CliError;

pub(super) fn impossible(name: &str, source: &str, why: Impossible) -> CliError {
    let line = file::line_of(source, why);
    let name = line.map_or_else(|| name.to_owned(), |line| format!("{name}:{line}"));
    let remedy = match why {
        Impossible::Guests(_) => format!("use --guests with 1 to {MOST_GUESTS}"),
        Impossible::Days(_) => format!("use --days with more than 0 and at most {MOST_DAYS}"),
        Impossible::Servers(_) => "keep at most 8 [[server]]".into(),
        Impossible::NoDiscipline => {
            "set disciplines to some of none, pll, keeper, regression, beside".into()
        }
        Impossible::Length(..) => "write the shorter length first".into(),
        Impossible::Never(_) => "set `per_day`, how often at random, or `at_s`, when".into(),
        Impossible::NoServer(..) => "set the server's place in the list, from 0".into(),
        Impossible::OtherStreams(_) => {
            "use the program that printed it, or run the whole scenario with another --seed".into()
        }
    };
    CliError::Failed { cause: format!("{name}: {why}"), remedy }
}
