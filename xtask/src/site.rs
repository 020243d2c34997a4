//! `cargo xtask site`: the documents as one site with search, by mdBook. It is made of
//! a copy of what docs/SUMMARY.md lists and of the files that those refer to, in the
//! repository's own folders, so that a link holds in both.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::check::targets;
use crate::outside::Outcome;
use crate::page;
use crate::project::Project;
use crate::tidy::links;
use crate::tidy::summary::{self, SUMMARY};

/// Builds the site, and says where it is.
pub(crate) fn run(project: &Project) -> ExitCode {
    match build(project) {
        Outcome::Passed => {
            println!("{}", index(project).display());
            ExitCode::SUCCESS
        }
        Outcome::Failed(output) => {
            eprintln!("site: {}", output.trim_end());
            ExitCode::FAILURE
        }
        Outcome::Skipped { why, remedy } => {
            eprintln!("site: {why}\n  try: {remedy}");
            ExitCode::FAILURE
        }
    }
}

/// Builds the site; every link in it has a target.
pub(crate) fn build(project: &Project) -> Outcome {
    let mut mdbook = std::process::Command::new("mdbook");
    if !crate::outside::is_available(mdbook.arg("--version")) {
        return Outcome::skipped("mdbook is not installed", "cargo install --locked mdbook");
    }
    let folder = folder(project);
    let has_pages = targets::is_installed(page::TARGET);
    if let Err(error) = stage(project, &folder, has_pages) {
        return Outcome::Failed(format!("{error}\n"));
    }
    let mut mdbook = std::process::Command::new("mdbook");
    match Outcome::of(mdbook.arg("build").arg(&folder)) {
        Outcome::Passed => {}
        other => return other,
    }
    if has_pages && let Err(why) = page::build(project, &folder.join("html")) {
        return Outcome::Failed(format!("{why}\n"));
    }
    let dead = dead_links(&folder.join("html"));
    if dead.is_empty() { Outcome::Passed } else { Outcome::Failed(dead.join("\n") + "\n") }
}

fn folder(project: &Project) -> PathBuf {
    project.target_folder().join("site")
}

fn index(project: &Project) -> PathBuf {
    folder(project).join("html/index.html")
}

/// Copies the pages and what they refer to. `has_pages`: those that run a module can be built.
fn stage(project: &Project, folder: &Path, has_pages: bool) -> io::Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    let source = folder.join("src");
    let files = project.files();
    let summary = summary::expanded(&fs::read_to_string(project.path(SUMMARY))?, &files, |path| {
        fs::read_to_string(project.path(path)).unwrap_or_default()
    });
    let place = |file: &str| {
        let to = source.join(file);
        fs::create_dir_all(to.parent().unwrap_or(&source)).map(|()| to)
    };
    let mut wanted: BTreeSet<String> = BTreeSet::new();
    for (_, page) in links::read(&summary).links {
        let mut text = fs::read_to_string(project.path(&page))
            .map_err(|error| io::Error::other(format!("{page}: {error}")))?;
        for (_, target) in links::read(&text).links {
            let file = target.split('#').next().unwrap_or_default();
            wanted.insert(links::resolve(&page, file));
            // mdBook names a README's page index.html, and does not follow in links to it.
            let there = target.replace("README.md", "index.html");
            text = text.replace(&format!("]({target})"), &format!("]({there})"));
        }
        if has_pages {
            text = with_pages(&text, &page);
        }
        fs::write(place(&page)?, text)?;
    }
    let is_file = |file: &&String| wanted.contains(*file) && !file.ends_with(".md");
    for file in files.iter().filter(is_file) {
        fs::copy(project.path(file), place(file)?)?;
    }
    fs::write(source.join("SUMMARY.md"), summary)?;
    fs::copy(project.path("docs/book.toml"), folder.join("book.toml")).map(drop)
}

/// A document in which a name of such a page, which is in the site alone, is a link.
fn with_pages(text: &str, document: &str) -> String {
    let up = "../".repeat(document.matches('/').count());
    page::files().fold(text.to_owned(), |text, file| {
        text.replace(&format!("`{file}`"), &format!("[`{file}`]({up}{file})"))
    })
}

/// Links of the site's pages to what is not in it.
fn dead_links(site: &Path) -> Vec<String> {
    let mut pages = BTreeMap::new();
    collect(site, &mut pages);
    let mut dead = Vec::new();
    for (path, page) in &pages {
        for link in attributes(page, &["href=\"", "src=\""]) {
            if link.contains(':') || link.starts_with("//") {
                continue;
            }
            let (file, fragment) = link.split_once('#').unwrap_or((link, ""));
            let mut to = path.clone();
            if !file.is_empty() {
                let from = path.strip_prefix(site).unwrap_or(path).to_string_lossy();
                to = site.join(links::resolve(&from, file));
            }
            if to.is_dir() {
                to.push("index.html");
            }
            let has = |page: &String| attributes(page, &["id=\""]).any(|id| id == fragment);
            if !to.is_file() || (!fragment.is_empty() && !pages.get(&to).is_none_or(has)) {
                dead.push(format!("{}: no {link}", path.display()));
            }
        }
    }
    dead
}

fn collect(folder: &Path, pages: &mut BTreeMap<PathBuf, String>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, pages);
        } else if path.extension().is_some_and(|extension| extension == "html") {
            let text = fs::read_to_string(&path).unwrap_or_default();
            pages.insert(path, text);
        }
    }
}

/// The values of attributes, each given up to its opening quotation mark.
fn attributes<'p>(page: &'p str, names: &'p [&str]) -> impl Iterator<Item = &'p str> {
    let values =
        |name: &&'p str| page.split(*name).skip(1).filter_map(|rest| rest.split('"').next());
    names.iter().flat_map(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pages_name_is_a_link_to_it() {
        assert_eq!(
            with_pages("Open `log.html` of the site.", "docs/guide/doctor.md"),
            "Open [`log.html`](../../log.html) of the site."
        );
    }

    #[test]
    fn a_link_to_nothing_is_found() {
        let site = std::env::temp_dir().join(format!("parachron-site-{}", std::process::id()));
        fs::create_dir_all(site.join("guide")).unwrap();
        let page = |links: &str| fs::write(site.join("guide/a.html"), links).unwrap();
        fs::write(site.join("index.html"), "<h1 id=\"top\">").unwrap();
        page("<a href=\"../index.html#top\"><a href=\"..\"><a href=\"https://example.org/\">");
        assert_eq!(dead_links(&site), Vec::<String>::new());
        page("<a href=\"gone.html\"><img src=\"gone.svg\"><a href=\"../index.html#gone\">");
        let dead = dead_links(&site);
        fs::remove_dir_all(&site).unwrap();
        let named = ["gone.html", "#gone", "gone.svg"];
        assert!(
            dead.len() == 3 && named.iter().zip(&dead).all(|(n, d)| d.ends_with(n)),
            "{dead:?}"
        );
    }
}
