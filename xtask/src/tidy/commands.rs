//! Commands that the documents tell people to type exist.

use clap::CommandFactory;
use pulldown_cmark::{Event, Parser, Tag, TagEnd};

use crate::diagnostic::Diagnostic;
use crate::tidy::File;

/// What stands before a command of ours, and whose it is.
const BEGINNINGS: &[(&str, Whose)] = &[
    ("cargo xtask ", Whose::Xtask),
    ("parachron ", Whose::Parachron),
    ("cargo run --release -- ", Whose::Parachron),
    ("cargo run -- ", Whose::Parachron),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Whose {
    Xtask,
    Parachron,
}

/// Checks all documents; `parachron` are the names of its commands.
pub(crate) fn check(files: &[File], parachron: &[String]) -> Vec<Diagnostic> {
    let xtask = crate::CommandLine::command();
    let xtask: Vec<String> =
        xtask.get_subcommands().map(|chore| chore.get_name().to_owned()).collect();
    let mut diagnostics = Vec::new();
    for file in files.iter().filter(|file| file.has_extension("md")) {
        for (line, command) in file.text().map(typed).unwrap_or_default() {
            for (beginning, whose) in BEGINNINGS {
                let Some(name) = name_after(&command, beginning) else { continue };
                let known = if *whose == Whose::Xtask { &xtask } else { parachron };
                if name != "help" && !known.iter().any(|known| known == name) {
                    diagnostics.push(Diagnostic::new(
                        &file.path,
                        line,
                        format!("no such command: {beginning}{name}"),
                        format!("one of {}", known.join(", ")),
                    ));
                }
            }
        }
    }
    diagnostics
}

/// The command's name, when this line is one of ours: a metavariable or an
/// option in its place is none.
fn name_after<'a>(command: &'a str, beginning: &str) -> Option<&'a str> {
    let command = command.trim_start_matches(['$', '#', ' ']);
    let command = command.strip_prefix("sudo ").unwrap_or(command);
    let command = command.strip_prefix("./target/release/").unwrap_or(command);
    let name = command.strip_prefix(beginning)?.split_whitespace().next()?;
    let name = name.trim_end_matches([',', ';', ')']);
    let lower = |c: char| c.is_ascii_lowercase() || c == '-';
    (!name.starts_with('-') && !name.is_empty() && name.chars().all(lower)).then_some(name)
}

/// Lines of code blocks for a shell, and code among words, with their lines.
fn typed(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut in_block = false;
    for (event, range) in Parser::new(text).into_offset_iter() {
        let line = text[..range.start].matches('\n').count() + 1;
        match event {
            Event::Start(Tag::CodeBlock(_)) => in_block = true,
            Event::End(TagEnd::CodeBlock) => in_block = false,
            Event::Text(block) if in_block => {
                found.extend((line..).zip(block.lines().map(str::to_owned)));
            }
            Event::Code(words) => found.push((line, words.into_string())),
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> Vec<String> {
        let files = [File { path: "README.md".to_owned(), bytes: text.into() }];
        let commands = ["doctor".to_owned(), "bench".to_owned()];
        check(&files, &commands).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn commands_that_exist_are_fine() {
        let text = "Run `cargo xtask check` or `parachron doctor --verbose`, `parachron --help`,\n\
                    `parachron COMMAND`, `parachron help`:\n\n\
                    ```sh\n$ sudo parachron bench\ncargo run --release -- doctor\n```\n\n\
                    parachron walks over the page.\n";
        assert_eq!(said(text), Vec::<String>::new());
    }

    #[test]
    fn commands_that_do_not_exist_are_found_with_their_line() {
        assert_eq!(
            said("text\n\n```sh\n$ true\n# parachron dokter\n```\n"),
            ["README.md:5: no such command: parachron dokter; one of doctor, bench"]
        );
        assert_eq!(said("`cargo xtask chek`").len(), 1);
    }
}
