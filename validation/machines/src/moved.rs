//! What the table names by version and the archive keeps under a newer one: `linux-source-7.2`
//! became `linux-source-7.4`. The newer is taken, and reported as moved on.

/// Reports it.
pub(crate) fn report(what: &str, was: &str, is: &str) {
    println!("machines: MOVED ON: {what}: was {was}, is {is}");
}

/// A name's first version of two figures or more, and what is before and after: `7.2` of
/// `linux-source-7.2.tar.xz`.
fn version(name: &str) -> Option<(&str, &str, &str)> {
    let begins = name.char_indices().filter(|(at, letter)| {
        letter.is_ascii_digit() && !name[..*at].ends_with(|last: char| last.is_ascii_alphanumeric())
    });
    begins.map(|(at, _)| at).find_map(|at| {
        let is_part = |letter: char| letter.is_ascii_digit() || letter == '.';
        let rest = &name[at..];
        let end = rest.find(|letter| !is_part(letter)).unwrap_or(rest.len());
        let version = rest[..end].trim_end_matches('.');
        version.contains('.').then(|| (&name[..at], version, &rest[version.len()..]))
    })
}

fn figures(version: &str) -> Vec<u32> {
    version.split('.').map_while(|figure| figure.parse().ok()).collect()
}

/// The newest of some names that are a name but for its version.
pub(crate) fn newest<'a>(name: &str, all: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let (before, _, after) = version(name)?;
    let alike = all.filter_map(|other| {
        let (other_before, version, other_after) = version(other)?;
        ((before, after) == (other_before, other_after)).then(|| (figures(version), other))
    });
    alike.max().map(|(_, other)| other)
}

/// The version in a name; the whole name where it has none.
pub(crate) fn version_of(name: &str) -> &str {
    version(name).map_or(name, |(_, version, _)| version)
}

/// Whether the version of a kernel that was unpacked is the one that the table means:
/// `6.1.0-39-amd64` is 6.1, and 6.12 is not.
pub(crate) fn is_version(found: &str, wanted: &str) -> bool {
    found
        .strip_prefix(wanted)
        .is_some_and(|rest| !rest.starts_with(|one: char| one.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_of_another_version_is_taken() {
        let all = ["linux-source-7.4", "linux-source-7.10", "linux-source", "linux-doc-8.0"];
        assert_eq!(newest("linux-source-7.2", all.into_iter()), Some("linux-source-7.10"));
        let xen = ["xen-hypervisor-4.20-amd64", "xen-hypervisor-4.20-arm64"];
        assert_eq!(newest("xen-hypervisor-4.17-amd64", xen.into_iter()), Some(xen[0]));
        assert_eq!(newest("libxenmisc4.20", ["libxenmisc4.21"].into_iter()), None);
        assert_eq!(newest("chrony", all.into_iter()), None, "it has no version");
        assert_eq!(
            newest("linux-source-7.2.tar.xz", ["linux-source-7.4.tar.xz"].into_iter()),
            Some("linux-source-7.4.tar.xz")
        );
        assert_eq!((version_of("xen-4.17-amd64.gz"), version_of("chrony")), ("4.17", "chrony"));
    }

    #[test]
    fn a_kernels_version_is_told_apart_from_a_longer_one() {
        assert!(is_version("6.1.0-39-amd64", "6.1") && is_version("7.2+deb14-amd64", "7.2"));
        assert!(!is_version("6.12.43-amd64", "6.1") && !is_version("7.3.1", "7.2"));
    }
}
