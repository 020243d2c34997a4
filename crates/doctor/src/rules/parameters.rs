//! Kernel parameters about time: what each does today.

mod table;

use self::table::{PARAMETERS, Parameter, ParameterEffect};
use crate::case::{Case, value_of};
use crate::finding::{Finding, Severity};
use crate::outcome::{Check, Outcome};
use crate::remedies;

/// A parameter on this kernel's command line.
struct Set {
    /// As it is written there: `tsc=unstable`.
    word: String,
    row: &'static Parameter,
}

/// Words of the command line that the table knows.
fn known_parameters(case: &Case<'_>) -> Vec<Set> {
    let row_for = |word: &str| {
        let is = |known: &str| match known.split_once('=') {
            Some((name, value)) => value_of(word, name) == Some(value),
            None => value_of(word, known).is_some(),
        };
        PARAMETERS.iter().find(|row| row.words.iter().any(|known| is(known)))
    };
    case.kernel_words()
        .filter_map(|word| Some(Set { word: word.to_owned(), row: row_for(word)? }))
        .collect()
}

/// `obsolete-parameters`
pub(crate) fn check_obsolete(case: &Case<'_>) -> Check {
    case.command_line()?;
    let obsolete = known_parameters(case)
        .into_iter()
        .filter(|set| matches!(set.row.effect, ParameterEffect::Obsolete));
    let findings = obsolete
        .map(|Set { word, row }| {
            Finding::new(Severity::Note, format!("The kernel parameter {word} is obsolete"))
                .evidence(format!("kernel command line: {word}"))
                .explain(row.today)
                .remedy(remedies::remove_parameter(case, &word))
        })
        .collect();
    Outcome::findings_or_fine(findings, || "none on the kernel command line".to_owned())
}

/// `harmful-parameters`
pub(crate) fn check_harmful(case: &Case<'_>) -> Check {
    case.command_line()?;
    let set = known_parameters(case);
    let harmless: Vec<String> = set
        .iter()
        .filter(|set| match set.row.effect {
            ParameterEffect::Harmless => true,
            ParameterEffect::HarmfulIf(applies, _) => !applies(case),
            ParameterEffect::Obsolete => false,
        })
        .map(|set| format!("{}: {}", set.word, set.row.today))
        .collect();
    let findings = set
        .into_iter()
        .filter_map(|Set { word, row }| {
            let ParameterEffect::HarmfulIf(applies, severity) = row.effect else { return None };
            applies(case).then(|| {
                let effect = if severity == Severity::Note { "has no use" } else { "does harm" };
                Finding::new(severity, format!("The kernel parameter {word} {effect} here"))
                    .evidence(format!("kernel command line: {word}"))
                    .explain(row.today)
                    .remedy(remedies::remove_parameter(case, &word))
            })
        })
        .collect();
    Outcome::findings_or_fine(findings, || match harmless.as_slice() {
        [] => "none on the kernel command line".to_owned(),
        some => some.join(" "),
    })
}

#[cfg(test)]
mod tests;
