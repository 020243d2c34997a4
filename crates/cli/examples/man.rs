//! Writes the manual pages, generated from the commands' options:
//! `cargo run -p parachron --example man DIR`.

use std::path::PathBuf;

use clap::{Arg, ArgAction, Command};
use clap_mangen::Man;
use daemon::program;

fn main() -> std::io::Result<()> {
    let folder = PathBuf::from(std::env::args_os().nth(1).expect("the folder to write to"));
    std::fs::create_dir_all(&folder)?;
    for (name, page) in pages() {
        std::fs::write(folder.join(name), page)?;
    }
    Ok(())
}

/// File names and contents: one for the program, one for each command.
fn pages() -> Vec<(String, String)> {
    let mut program = parachron::command().disable_help_subcommand(true);
    program.build();
    let mut pages = Vec::new();
    add_pages(&program, &mut pages);
    pages.extend(rendered(Man::new(daemon()).section("8"), program::EXIT_CODES, DAEMON_EXAMPLES));
    pages
}

/// `parachrond`, as its own help has it.
fn daemon() -> Command {
    let options = program::OPTIONS.iter().map(|option| {
        let arg = Arg::new(option.name).long(option.name).help(option.help);
        match option.value {
            Some(value) => arg.value_name(value),
            None => arg.action(ArgAction::SetTrue),
        }
    });
    Command::new("parachrond")
        .version(env!("CARGO_PKG_VERSION"))
        .about(program::ABOUT)
        .long_about(program::DESCRIPTION)
        .disable_help_flag(true)
        .disable_version_flag(true)
        .args(options)
}

const DAEMON_EXAMPLES: &[(&str, &str)] = &[
    ("parachrond --check", "print each mistake in the configuration"),
    ("parachrond --dry-run", "report corrections in the foreground, and make none"),
    ("systemctl enable --now parachrond", "keep the clock right from now on"),
];

fn rendered(
    page: Man,
    exits: &[(u8, &str)],
    examples: &[(&str, &str)],
) -> Option<(String, String)> {
    let source = format!("parachron {}", env!("CARGO_PKG_VERSION"));
    let page = page.source(source).manual("Parachron");
    let mut text = Vec::new();
    // Writing to memory cannot fail.
    page.render(&mut text).ok()?;
    let paragraph = |head: &str, text: &str| format!(".TP\n{head}\n{text}\n").replace('-', "\\-");
    let exits = exits.iter().map(|(code, when)| paragraph(&code.to_string(), when));
    text.extend(format!(".SH \"EXIT STATUS\"\n{}", exits.collect::<String>()).bytes());
    let examples = examples.iter().map(|(example, purpose)| paragraph(example, purpose));
    text.extend(format!(".SH EXAMPLES\n{}", examples.collect::<String>()).bytes());
    Some((page.get_filename(), String::from_utf8_lossy(&text).into_owned()))
}

fn add_pages(command: &Command, pages: &mut Vec<(String, String)>) {
    let page = command.get_display_name().unwrap_or("parachron");
    let (exits, examples) = parachron::help_end(page)
        .map_or((&[][..], &[][..]), |end| (&end.exits[..], &end.examples[..]));
    pages.extend(rendered(Man::new(command.clone()), exits, examples));
    for command in command.get_subcommands().filter(|command| !command.is_hide_set()) {
        add_pages(command, pages);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_but_the_hidden_has_its_page() {
        let pages = pages();
        let names: Vec<&str> = pages.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names[0], "parachron.1");
        for command in parachron::command().get_subcommands().filter(|c| !c.is_hide_set()) {
            assert!(names.contains(&&*format!("parachron-{}.1", command.get_name())), "{names:?}");
        }
        for (name, text) in &pages {
            for heading in ["NAME", "SYNOPSIS", "\"EXIT STATUS\"\n.TP\n", "EXAMPLES\n.TP\n"] {
                assert!(text.contains(&format!(".SH {heading}")), "{name}, {heading}: {text}");
            }
        }
        let of_daemon = pages.iter().find(|(name, _)| name == "parachrond.8");
        let text = &of_daemon.expect("its page").1;
        assert!(text.contains("check") && text.contains("\n4\nno source"), "{text}");
        assert!(!names.iter().any(|name| name.contains("guard")), "{names:?}");
    }
}
