//! The end of each command's help and manual page: exit codes, and examples to copy.

use std::sync::LazyLock;

use clap::Command;

/// The end of a command's help.
#[derive(Debug)]
pub struct HelpEnd {
    /// The words of the command after `parachron`, as in the manual page's name.
    name: &'static str,
    /// Exit codes, and when each is returned.
    pub exits: Vec<(u8, &'static str)>,
    /// Commands, and what each is for.
    pub examples: Vec<(&'static str, &'static str)>,
}

/// The table; its heading describes the form.
const TABLE: &str = include_str!("help.txt");

static ENDS: LazyLock<Vec<HelpEnd>> =
    LazyLock::new(|| TABLE.split("\n== ").skip(1).filter_map(HelpEnd::parse).collect());

impl HelpEnd {
    fn parse(part: &'static str) -> Option<Self> {
        let mut lines = part.lines().filter(|line| !line.is_empty());
        let name = lines.next()?;
        let (mut exits, mut examples) = (Vec::new(), Vec::new());
        for line in lines {
            match line.strip_prefix("$ ") {
                Some(example) => examples.push(example.split_once(" | ")?),
                None => {
                    let (code, when) = line.split_once(' ')?;
                    exits.push((code.parse().ok()?, when));
                }
            }
        }
        if exits.is_empty() {
            exits.extend(daemon::program::EXIT_CODES);
        }
        Some(Self { name, exits, examples })
    }
}

/// The end of a command's help, by the name of its manual page.
pub fn end(page: &str) -> Option<&'static HelpEnd> {
    let name = page.strip_prefix("parachron-").unwrap_or(page);
    let is_named = |wanted: &str| ENDS.iter().find(|end| end.name == wanted);
    is_named(name).or_else(|| is_named(name.split_once('-')?.0))
}

/// The commands, each with its end.
pub(crate) fn complete(command: Command, page: &str) -> Command {
    let command = command.mut_subcommands(|inner| {
        let name = format!("{page}-{}", inner.get_name());
        complete(inner, &name)
    });
    let Some(end) = end(page).filter(|_| !command.is_hide_set()) else { return command };
    let mut text = command.get_after_help().map(|help| format!("{help}\n\n")).unwrap_or_default();
    text += "Exit codes:\n";
    for (code, when) in &end.exits {
        text += &format!("  {code}  {when}\n");
    }
    text += "\nExamples:\n";
    for (example, purpose) in &end.examples {
        text += &format!("  {example}\n      {purpose}\n");
    }
    command.after_long_help(text)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::commands::CommandLine;

    #[test]
    fn every_example_is_accepted_by_its_command() {
        assert_eq!(ENDS.len(), TABLE.matches("\n== ").count());
        for end in ENDS.iter() {
            for (example, _) in &end.examples {
                let words = example.split(' ').skip_while(|word| *word == "sudo");
                let words: Vec<_> = words.collect();
                let name = words[1..].join("-");
                let is_own = end.name == "parachron" || name.starts_with(end.name);
                assert!(is_own, "{example}: not of {}", end.name);
                let parsed = CommandLine::command().try_get_matches_from(words);
                assert!(parsed.is_ok(), "{example}: {}", parsed.unwrap_err());
            }
        }
    }

    #[test]
    fn every_command_has_its_end() {
        for command in complete(CommandLine::command(), "parachron").get_subcommands() {
            let has = command.get_after_long_help().is_some_and(|help| {
                let help = help.to_string();
                help.contains("Exit codes:\n  0  ") && help.contains("\nExamples:\n  ")
            });
            assert!(has || command.is_hide_set(), "{}", command.get_name());
        }
    }
}
