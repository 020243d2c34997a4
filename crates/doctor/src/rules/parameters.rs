//! Kernel parameters about time: what each does today.

use std::sync::LazyLock;

use facts::cpu::HypervisorKind;

use crate::case::trust::stops_unless_flagged;
use crate::case::{Case, value_of};
use crate::finding::{Finding, Severity};
use crate::remedies;
use crate::rule::{Check, Outcome};
use crate::rules::statements::severity;
use crate::rules::unstable::condemned;

/// The table; its heading describes the form.
const TABLE: &str = include_str!("parameters/table.txt");

static PARAMETERS: LazyLock<Vec<Parameter>> =
    LazyLock::new(|| TABLE.split("\n== ").skip(1).filter_map(Parameter::parse).collect());

/// Parameters that do the same.
struct Parameter {
    words: Vec<&'static str>,
    today: &'static str,
    effect: ParameterEffect,
}

/// Whether a parameter does harm today.
enum ParameterEffect {
    Obsolete,
    Harmless,
    /// It does harm on machines like these.
    HarmfulIf(IsMachine, Severity),
}

impl Parameter {
    fn parse(part: &'static str) -> Option<Self> {
        let mut lines = part.lines();
        let (words, effect) = lines.next()?.split_once(" | ")?;
        let effect = match effect.split_once(' ') {
            None if effect == "obsolete" => ParameterEffect::Obsolete,
            None if effect == "harmless" => ParameterEffect::Harmless,
            None => return None,
            Some((level, machines)) => {
                let (_, applies) = MACHINES.into_iter().find(|(name, _)| *name == machines)?;
                ParameterEffect::HarmfulIf(applies, severity(level)?)
            }
        };
        Some(Self { words: words.split(' ').collect(), today: lines.next()?, effect })
    }
}

type IsMachine = fn(&Case<'_>) -> bool;

/// The kinds of machines in the table.
const MACHINES: [(&str, IsMachine); 7] = [
    ("any", |_| true),
    ("guest", |case| case.is_guest() == Some(true)),
    // On KVM the rule `kvm-clock-missing` reports it.
    ("guest-not-of-kvm", |case| {
        case.is_guest() == Some(true) && case.kind() != Some(HypervisorKind::Kvm)
    }),
    ("kvm-clock", |case| case.current() == Ok("kvm-clock")),
    ("nonstop-tsc", |case| case.flags().is_ok_and(|flags| flags.nonstop_tsc)),
    // Neither the CPU nor the kernel reports anything against the TSC.
    ("good-tsc", |case| cpu_guarantees(case) == Some(true) && !condemned(case)),
    // The parameter trusts a TSC that the CPU or the kernel does not.
    ("doubtful-tsc", |case| cpu_guarantees(case) == Some(false) || condemned(case)),
];

/// Whether the CPU's flags guarantee its TSC, where they are known.
fn cpu_guarantees(case: &Case<'_>) -> Option<bool> {
    let flags = case.flags().ok()?;
    Some(flags.constant_tsc && (flags.nonstop_tsc || !stops_unless_flagged(case)))
}

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
