//! Commands in the documents exist.

use clap::CommandFactory;
use pulldown_cmark::{CodeBlockKind, Event, Parser, Tag, TagEnd};

use crate::diagnostic::Diagnostic;
use crate::tidy::File;

/// The enum whose variants are parachron's commands.
const COMMANDS: (&str, &str) = ("crates/cli/src/commands.rs", "enum Command {");

pub(crate) fn check(files: &[File]) -> Vec<Diagnostic> {
    let commands = files.iter().find(|file| file.path == COMMANDS.0).and_then(File::text);
    let parachron = variants(commands.unwrap_or_default());
    let xtask = crate::CommandLine::command();
    let xtask: Vec<String> =
        xtask.get_subcommands().map(|chore| chore.get_name().to_owned()).collect();
    let beginnings = [
        ("cargo xtask ", &xtask),
        ("parachron ", &parachron),
        ("cargo run --release -- ", &parachron),
        ("cargo run -- ", &parachron),
    ];
    let mut diagnostics = Vec::new();
    for file in files.iter().filter(|file| file.has_extension("md")) {
        for (line, command) in file.text().map(typed).unwrap_or_default() {
            for (beginning, known) in beginnings {
                let Some(name) = name_after(&command, beginning) else { continue };
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

/// The command's name, if this line is one of our commands: a metavariable or
/// an option is not a name.
fn name_after<'a>(command: &'a str, beginning: &str) -> Option<&'a str> {
    let command = command.trim_start_matches(['$', '#', ' ']);
    let command = command.strip_prefix("sudo ").unwrap_or(command);
    let command = command.strip_prefix("./target/release/").unwrap_or(command);
    // After two spaces it is a table's next column.
    let name = command.strip_prefix(beginning)?.split(' ').next()?;
    let name = name.trim_end_matches([',', ';', ')']);
    let lower = |c: char| c.is_ascii_lowercase() || c == '-';
    (!name.starts_with('-') && !name.is_empty() && name.chars().all(lower)).then_some(name)
}

/// Lines of code blocks and inline code, with their line numbers. In a block of
/// `text`, output, only what follows a prompt is typed.
fn typed(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    // Whether the block that is open, if one is, holds a program's output.
    let mut block = None;
    for (event, range) in Parser::new(text).into_offset_iter() {
        let line = text[..range.start].matches('\n').count() + 1;
        match (event, block) {
            (Event::Start(Tag::CodeBlock(kind)), _) => {
                block = Some(matches!(kind, CodeBlockKind::Fenced(kind) if &*kind == "text"));
            }
            (Event::End(TagEnd::CodeBlock), _) => block = None,
            (Event::Text(lines), Some(is_output)) => {
                let lines = (line..).zip(lines.lines().map(str::to_owned));
                found.extend(lines.filter(|(_, line)| !is_output || line.starts_with("$ ")));
            }
            (Event::Code(words), _) => found.push((line, words.into_string())),
            _ => {}
        }
    }
    found
}

/// The variants of parachron's enum of commands, as typed. A variant that clap
/// flattens into others is not a command.
fn variants(source: &str) -> Vec<String> {
    let from = source.lines().skip_while(|line| !line.contains(COMMANDS.1));
    let body: Vec<&str> = from.take_while(|line| *line != "}").collect();
    let variant = |pair: &[&str]| {
        let name = pair[1].strip_prefix("    ")?.split(['(', ' ', ',']).next()?;
        let is_variant = name.starts_with(|c: char| c.is_ascii_uppercase());
        (is_variant && !pair[0].contains("flatten")).then(|| kebab_case(name))
    };
    body.windows(2).filter_map(variant).collect()
}

fn kebab_case(name: &str) -> String {
    let mut spelled = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !spelled.is_empty() {
            spelled.push('-');
        }
        spelled.extend(letter.to_lowercase());
    }
    spelled
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        let source = "enum Command {\n    /// Checks.\n    Doctor(u8),\n    EachSource,\n    \
                      #[command(flatten)]\n    Hidden(u8),\n}\n";
        let files = [("README.md", text), (COMMANDS.0, source)];
        let files = files.map(|(path, text)| File { path: path.to_owned(), bytes: text.into() });
        check(&files).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn commands_that_exist_are_accepted() {
        let text = "Run `cargo xtask check` or `parachron doctor --verbose`, `parachron --help`,\n\
                    `parachron COMMAND`, `parachron help`:\n\n\
                    ```sh\n$ sudo parachron each-source\ncargo run --release -- doctor\n```\n\n\
                    ```text\nparachron  freeze\n```\n\nparachron is not a command here.\n";
        assert_eq!(found(text), Vec::<String>::new());
    }

    #[test]
    fn commands_that_do_not_exist_are_found_with_their_line() {
        assert_eq!(
            found("text\n\n```sh\n$ true\n# parachron dokter\n```\n"),
            ["README.md:5: no such command: parachron dokter; one of doctor, each-source"]
        );
        assert_eq!(found("`cargo xtask chek`").len(), 1);
        assert_eq!(found("```text\n$ parachron dokter\n```\n").len(), 1);
    }
}
