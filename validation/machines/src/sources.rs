//! Where Debian's archive is, by this system's own apt configuration: no mirror is named in this
//! repository, and people have mirrors of their own. Both formats of sources.list(5) are read.

use std::fs;
use std::path::Path;

use crate::outcome::Unavailable;

/// Where apt keeps its configuration.
pub(crate) const APT: &str = "/etc/apt";

/// Ends the suites of the security archive, which has an address of its own.
const SECURITY: &str = "-security";

/// The releases whose names Debian's suites begin with, or are.
const RELEASES: [&str; 9] =
    ["bullseye", "bookworm", "trixie", "forky", "duke", "sid", "stable", "testing", "unstable"];

/// What may follow a release's name.
const PARTS: [&str; 5] = ["", "-updates", "-backports", "-proposed-updates", SECURITY];

/// One address with what it is used for.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Source {
    address: String,
    suite: String,
    trust: Trust,
}

/// How sure it is that an address is Debian's, the surest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Trust {
    /// It is verified by the keyring of Debian's archive.
    Keyring,
    /// No key is named.
    AnyKey,
}

/// The addresses of Debian's archive.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Archive {
    main: Option<String>,
    security: Option<String>,
}

impl Archive {
    /// As a folder's `sources.list` and `sources.list.d` name them.
    pub(crate) fn read(apt: &Path) -> Self {
        let parts = fs::read_dir(apt.join("sources.list.d")).into_iter().flatten().flatten();
        let mut files: Vec<_> = parts.map(|entry| entry.path()).collect();
        files.sort();
        files.insert(0, apt.join("sources.list"));
        let mut sources = Vec::new();
        for file in files {
            let text = fs::read_to_string(&file).unwrap_or_default();
            // apt passes over files of other names.
            match file.extension().and_then(|extension| extension.to_str()) {
                Some("list") => sources.extend(text.lines().flat_map(of_line)),
                Some("sources") => sources.extend(paragraphs(&text).flat_map(of_paragraph)),
                _ => {}
            }
        }
        Self::of(&sources)
    }

    fn of(sources: &[Source]) -> Self {
        let first = |is_security: bool| {
            let of_kind = sources.iter().filter(|one| one.suite.ends_with(SECURITY) == is_security);
            of_kind.min_by_key(|one| one.trust).map(|one| one.address.clone())
        };
        Self { main: first(false), security: first(true) }
    }

    /// The address of a suite.
    pub(crate) fn address(&self, suite: &str) -> Result<&str, Unavailable> {
        let is_security = suite.ends_with(SECURITY);
        let address = if is_security { &self.security } else { &self.main };
        address.as_deref().ok_or_else(|| {
            let kind = if is_security { "Debian's security archive" } else { "Debian's archive" };
            let why = format!("apt's configuration names no address of {kind}");
            let remedy = format!("use --apt FOLDER, with a sources.list that names suite {suite}");
            Unavailable::new(why, remedy)
        })
    }
}

/// The sources of a type, addresses, suites and components; none that are not Debian's.
fn sources<'a>(
    types: &str,
    addresses: &'a str,
    suites: &'a str,
    components: &str,
    signed_by: Option<&str>,
) -> Vec<Source> {
    let trust = match signed_by {
        None => Trust::AnyKey,
        Some(key) if key.contains("debian-archive") => Trust::Keyring,
        Some(_) => return Vec::new(),
    };
    let has = |words: &str, wanted: &str| words.split_whitespace().any(|word| word == wanted);
    if !has(types, "deb") || !has(components, "main") {
        return Vec::new();
    }
    let is_debian = |suite: &&str| {
        let name = suite.replace("/updates", SECURITY);
        let of_release =
            |release: &&str| name.strip_prefix(release).is_some_and(|rest| PARTS.contains(&rest));
        RELEASES.iter().any(of_release)
    };
    let suites: Vec<&str> = suites.split_whitespace().filter(is_debian).collect();
    let addresses = addresses.split_whitespace().filter(|one| !one.starts_with("cdrom:"));
    let each = addresses.flat_map(|address| {
        suites.iter().map(move |suite| (address.to_owned(), (*suite).to_owned()))
    });
    each.map(|(address, suite)| Source { address, suite, trust }).collect()
}

/// `deb [signed-by=KEYRING arch=amd64] ADDRESS SUITE COMPONENT…`.
fn of_line(line: &str) -> Vec<Source> {
    let line = line.split('#').next().unwrap_or_default().trim();
    let Some((kind, rest)) = line.split_once(char::is_whitespace) else { return Vec::new() };
    let rest = rest.trim_start();
    let (options, rest) = match rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((options, rest)) => (options, rest.trim_start()),
        None => ("", rest),
    };
    let signed_by = options.split_whitespace().find_map(|option| option.strip_prefix("signed-by="));
    let mut words = rest.split_whitespace();
    let (Some(address), Some(suite)) = (words.next(), words.next()) else { return Vec::new() };
    sources(kind, address, suite, &words.collect::<Vec<_>>().join(" "), signed_by)
}

/// The paragraphs of a file in the format of deb822(5), without its comments.
fn paragraphs(text: &str) -> impl Iterator<Item = String> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let all = lines.map(str::trim_end).collect::<Vec<_>>().join("\n");
    all.split("\n\n").map(str::to_owned).collect::<Vec<_>>().into_iter()
}

fn of_paragraph(paragraph: String) -> Vec<Source> {
    let field = |wanted: &str| {
        let mut lines = paragraph.lines().skip_while(|line| {
            !line.split_once(':').is_some_and(|(name, _)| name.eq_ignore_ascii_case(wanted))
        });
        let (_, first) = lines.next()?.split_once(':')?;
        // A field goes on in lines that begin with a space.
        let more = lines.take_while(|line| line.starts_with([' ', '\t']));
        Some([first].into_iter().chain(more).collect::<Vec<_>>().join(" "))
    };
    if field("Enabled").is_some_and(|word| ["no", "false", "0"].contains(&word.trim())) {
        return Vec::new();
    }
    let text = |name| field(name).unwrap_or_default();
    let signed_by = field("Signed-By");
    let (types, addresses, suites) = (text("Types"), text("URIs"), text("Suites"));
    sources(&types, &addresses, &suites, &text("Components"), signed_by.as_deref())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `deb822.sources` is one file, all else another.
    fn archive(files: &[(&str, &str)]) -> Archive {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("sources.list.d")).unwrap();
        for (name, text) in files {
            fs::write(folder.path().join(name), text).unwrap();
        }
        Archive::read(folder.path())
    }

    fn of(main: Option<&str>, security: Option<&str>) -> Archive {
        Archive { main: main.map(str::to_owned), security: security.map(str::to_owned) }
    }

    #[test]
    fn both_formats_name_the_archive() {
        let lines = "# deb file:/old bookworm main\n\
            deb [arch=amd64 signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] file:/debian bookworm main contrib\n\
            deb-src file:/source bookworm main\n\
            deb file:/security bookworm-security main # late\n";
        let both = of(Some("file:/debian"), Some("file:/security"));
        assert_eq!(archive(&[("sources.list", lines)]), both);
        let paragraphs = "Types: deb deb-src\n# URIs: file:/old\nURIs: file:/debian\n\
            Suites: trixie\n trixie-updates\nComponents: main\n\
            Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg\n\n\
            types: deb\nuris: file:/security\nsuites: trixie-security\ncomponents: main\n";
        assert_eq!(archive(&[("sources.list.d/debian.sources", paragraphs)]), both);
        assert_eq!(
            archive(&[("sources.list.d/debian.sources.disabled", paragraphs)]),
            of(None, None)
        );
        let off = paragraphs.replace("Types: deb deb-src", "Enabled: no\nTypes: deb");
        let security = of(None, Some("file:/security"));
        assert_eq!(archive(&[("sources.list.d/debian.sources", &off)]), security);
    }

    #[test]
    fn what_others_publish_is_not_debians() {
        let others = "deb file:/docker bookworm stable\n\
            deb file:/postgresql bookworm-pgdg main\n\
            deb [signed-by=/usr/share/keyrings/other.gpg] file:/other bookworm main\n\
            deb file:/ubuntu noble main\ndeb cdrom:[Debian]/ bookworm main\ndeb\n";
        assert_eq!(archive(&[("sources.list.d/a.list", others)]), of(None, None));
        let unsigned = "deb file:/first bookworm main\n";
        let signed = "Types: deb\nURIs: file:/debian\nSuites: sid\nComponents: main\n\
            Signed-By: /usr/share/keyrings/debian-archive-keyring.pgp\n";
        let both = [("sources.list", unsigned), ("sources.list.d/debian.sources", signed)];
        assert_eq!(archive(&both), of(Some("file:/debian"), None), "the surer one");
        assert_eq!(archive(&both[..1]), of(Some("file:/first"), None));
    }

    #[test]
    fn a_system_without_the_archive_has_the_reason_and_a_remedy() {
        let archive = of(Some("file:/debian"), None);
        assert_eq!(archive.address("bookworm-backports"), Ok("file:/debian"));
        let missing = archive.address("bullseye-security").unwrap_err();
        assert_eq!(
            missing.why,
            "apt's configuration names no address of Debian's security archive"
        );
        assert_eq!(
            missing.remedy,
            "use --apt FOLDER, with a sources.list that names suite bullseye-security"
        );
        assert!(Archive::read(Path::new("/no/such/folder")).address("sid").is_err());
    }
}
