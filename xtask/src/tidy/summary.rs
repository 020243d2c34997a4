//! Which documents are pages of the site: those of docs/SUMMARY.md, the decisions and the
//! crates' READMEs.

use crate::diagnostic::Diagnostic;
use crate::tidy::{File, links};

/// The list of pages.
pub(crate) const SUMMARY: &str = "docs/SUMMARY.md";

/// A page, and the start and end of the names of the documents below it.
const BELOW: [(&str, &str, &str); 2] = [
    ("docs/decisions/README.md", "docs/decisions/", ".md"),
    ("ARCHITECTURE.md", "crates/", "/README.md"),
];

/// The list with paths from the repository's root, and with all documents.
pub(crate) fn expanded(text: &str, files: &[String], read: impl Fn(&str) -> String) -> String {
    let mut list = String::new();
    for line in text.lines() {
        let Some((label, target)) = line.split_once("](") else {
            list += &format!("{line}\n");
            continue;
        };
        let page = links::resolve(SUMMARY, target.trim_end_matches(')'));
        list += &format!("{label}]({page})\n");
        for (_, start, end) in BELOW.iter().filter(|(above, ..)| *above == page) {
            let is_below =
                |file: &&String| file.starts_with(start) && file.ends_with(end) && **file != page;
            for file in files.iter().filter(is_below) {
                list += &format!("  - [{}]({file})\n", title(&read(file)));
            }
        }
    }
    list
}

/// Its first heading.
fn title(text: &str) -> String {
    let heading = text.lines().find_map(|line| line.strip_prefix("# "));
    heading.unwrap_or("?").replace(['[', ']', '`'], "")
}

/// Documents in docs/ are listed.
pub(super) fn check(files: &[File]) -> Vec<Diagnostic> {
    let Some(list) = files.iter().find(|file| file.path == SUMMARY) else { return Vec::new() };
    let listed = links::read(list.text().unwrap_or_default()).links.into_iter();
    let listed: Vec<String> = listed.map(|(_, page)| links::resolve(SUMMARY, &page)).collect();
    let is_missing = |file: &&File| {
        let is_below = |(_, start, end): &(_, &str, &str)| {
            file.path.starts_with(start) && file.path.ends_with(end)
        };
        let is_page = file.path.starts_with("docs/") && file.has_extension("md");
        is_page
            && file.path != SUMMARY
            && !BELOW.iter().any(is_below)
            && !listed.contains(&file.path)
    };
    let say = |file: &File| {
        Diagnostic::new(&file.path, 1, format!("not in {SUMMARY}"), "add a line there")
    };
    files.iter().filter(is_missing).map(say).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_has_all_that_stands_below_its_pages() {
        let files = ["ARCHITECTURE.md", "crates/b/README.md"].map(str::to_owned);
        let text = "# Summary\n\n[Top](../README.md)\n- [Crates](../ARCHITECTURE.md)\n";
        let read = |_: &str| "\n# The `b`\n".to_owned();
        assert_eq!(
            expanded(text, &files, read),
            "# Summary\n\n[Top](README.md)\n- [Crates](ARCHITECTURE.md)\n  - [The b](crates/b/README.md)\n"
        );
    }

    #[test]
    fn decisions_are_below_their_list_and_the_list_is_not() {
        let files = ["docs/decisions/README.md", "docs/decisions/a.md"].map(str::to_owned);
        let read = |path: &str| format!("# {path}\n");
        assert_eq!(
            expanded("- [Decisions](decisions/README.md)\n", &files, read),
            "- [Decisions](docs/decisions/README.md)\n  \
             - [docs/decisions/a.md](docs/decisions/a.md)\n"
        );
    }

    #[test]
    fn a_document_that_is_not_listed_is_found() {
        let file = |path: &str, text: &str| File { path: path.to_owned(), bytes: text.into() };
        let found = |list: &str| {
            let files = [file(SUMMARY, list), file("docs/guide/a.md", ""), file("docs/a.svg", "")];
            check(&files).iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(
            found("# Summary"),
            ["docs/guide/a.md:1: not in docs/SUMMARY.md; add a line there"]
        );
        assert_eq!(found("- [A](guide/a.md)"), Vec::<String>::new());
    }
}
