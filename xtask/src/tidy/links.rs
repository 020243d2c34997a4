//! Links between the documents have targets.

use std::collections::{BTreeMap, BTreeSet};

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use crate::diagnostic::Diagnostic;
use crate::tidy::File;

pub(crate) fn check(files: &[File]) -> Vec<Diagnostic> {
    let paths: BTreeSet<&str> = files.iter().map(|file| file.path.as_str()).collect();
    let documents: BTreeMap<&str, Document> = files
        .iter()
        .filter(|file| file.has_extension("md") && !file.path.starts_with("testdata/"))
        .filter_map(|file| Some((file.path.as_str(), read(file.text()?))))
        .collect();
    let mut diagnostics = Vec::new();
    for (path, document) in &documents {
        for (line, target) in &document.links {
            if let Some((what, remedy)) = dead(path, target, &paths, &documents) {
                diagnostics.push(Diagnostic::new(path, *line, what, remedy));
            }
        }
    }
    diagnostics
}

/// The links of a document, and their possible targets.
struct Document {
    /// Line and target.
    links: Vec<(usize, String)>,
    /// Names of its headings.
    anchors: BTreeSet<String>,
}

/// Reads a document.
fn read(text: &str) -> Document {
    let mut links = Vec::new();
    let mut anchors = BTreeSet::new();
    let mut heading: Option<String> = None;
    let options = Options::ENABLE_TABLES | Options::ENABLE_FOOTNOTES;
    for (event, range) in Parser::new_ext(text, options).into_offset_iter() {
        match event {
            Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                let line = text[..range.start].matches('\n').count() + 1;
                links.push((line, dest_url.into_string()));
            }
            Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
            Event::Text(words) | Event::Code(words) => {
                if let Some(heading) = &mut heading {
                    heading.push_str(&words);
                }
            }
            Event::End(TagEnd::Heading(_)) => {
                let name = anchor(&heading.take().unwrap_or_default());
                let again = (1..).map(|n| format!("{name}-{n}"));
                let free = std::iter::once(name.clone()).chain(again);
                anchors.extend(free.into_iter().find(|name| !anchors.contains(name)));
            }
            _ => {}
        }
    }
    Document { links, anchors }
}

/// A heading's name in links, as GitHub forms it.
fn anchor(heading: &str) -> String {
    heading
        .to_lowercase()
        .chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
        .map(|c| if c == ' ' { '-' } else { c })
        .collect()
}

/// What is wrong with a link, and the remedy.
fn dead(
    from: &str,
    target: &str,
    paths: &BTreeSet<&str>,
    documents: &BTreeMap<&str, Document>,
) -> Option<(String, &'static str)> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (file, fragment) = target.split_once('#').unwrap_or((target, ""));
    let to = if file.is_empty() { from.to_owned() } else { resolve(from, file) };
    let folder = format!("{to}/");
    let is_there = to.is_empty()
        || paths.contains(to.as_str())
        || paths.range(folder.as_str()..).next().is_some_and(|path| path.starts_with(&folder));
    if !is_there {
        return Some((format!("link to {target}: no file {to}"), "fix the link or write the file"));
    }
    let document = documents.get(to.as_str())?;
    (!fragment.is_empty() && !document.anchors.contains(fragment)).then(|| {
        (format!("link to {target}: no such heading in {to}"), "fix the link or the heading")
    })
}

/// A relative target as a path from the root.
fn resolve(from: &str, target: &str) -> String {
    let folder = from.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(links: &str) -> Vec<String> {
        let file = |path: &str, text: &str| File { path: path.to_owned(), bytes: text.into() };
        let files = [
            file("docs/guide/a.md", links),
            file("docs/guide/b.md", "# The `pvclock` page, twice\n\n## More\n\n## More\n"),
            file("README.md", "# Top\n"),
            file("docs/guide/plot.svg", "<svg/>"),
        ];
        check(&files).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn working_links_are_accepted() {
        let text = "# Here\n\n[a](b.md) [b](b.md#the-pvclock-page-twice) [c](b.md#more-1)\n\
                    [d](../../README.md) [e](..) [f](#here) ![g](plot.svg)\n\
                    [h](https://example.org/x) `[i](gone.md)`\n\n```\n[j](gone.md)\n```\n";
        assert_eq!(found(text), Vec::<String>::new());
    }

    #[test]
    fn dead_links_are_found_with_their_line() {
        assert_eq!(
            found("text\n\n[a](gone.md)\n"),
            ["docs/guide/a.md:3: link to gone.md: no file docs/guide/gone.md; \
             fix the link or write the file"]
        );
        assert_eq!(
            found("[a](b.md#gone)\n"),
            ["docs/guide/a.md:1: link to b.md#gone: no such heading in docs/guide/b.md; \
             fix the link or the heading"]
        );
        assert_eq!(found("[a][x]\n\n[x]: ../gone/\n").len(), 1);
        assert_eq!(found("# Here\n\n[a](#there)\n").len(), 1);
    }
}
