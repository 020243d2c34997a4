//! Configuration files in YAML: small, flat, and refused where a key has no effect here.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use saphyr::{LoadableYamlNode, Yaml};
use saphyr_parser::{Event, Parser};

use super::error::WebError;

/// A longer file is refused.
const MOST_BYTES: u64 = 64 << 10;
/// These files have mappings in a mapping. saphyr 0.3 recurses as deep as the text nests, and
/// so beyond any stack.
const MOST_DEPTH: u32 = 8;

/// A file's text.
pub(super) fn text(path: &Path) -> Result<String, WebError> {
    let wrong = |why: io::Error| error(path, &why);
    let mut text = String::new();
    let file = File::open(path).map_err(wrong)?;
    file.take(MOST_BYTES + 1).read_to_string(&mut text).map_err(wrong)?;
    if text.len() as u64 > MOST_BYTES {
        return Err(wrong(io::Error::other(format!("longer than {MOST_BYTES} bytes"))));
    }
    Ok(text)
}

pub(super) fn error(path: &Path, why: &dyn std::fmt::Display) -> WebError {
    WebError { path: path.to_owned(), why: why.to_string() }
}

/// The file that a configuration names, relative to itself.
pub(super) fn relative(path: &Path, name: &str) -> PathBuf {
    path.with_file_name("").join(name)
}

/// Hands each key of the text's mapping, with its value, to `take`; an empty text has none.
pub(super) fn each_entry(
    text: &str,
    mut take: impl FnMut(&str, &Yaml<'_>) -> Result<(), String>,
) -> Result<(), String> {
    check_depth(text)?;
    let documents = Yaml::load_from_str(text).map_err(|why| why.to_string())?;
    let Some(document) = documents.first().filter(|document| !document.is_null()) else {
        return Ok(());
    };
    entries(document)?.into_iter().try_for_each(|(key, value)| take(key, value))
}

/// Refuses lists and mappings that are nested deeply.
fn check_depth(text: &str) -> Result<(), String> {
    let mut depth = 0_u32;
    for event in Parser::new_from_str(text) {
        match event.map_err(|why| why.to_string())?.0 {
            Event::SequenceStart(..) | Event::MappingStart(..) => depth += 1,
            Event::SequenceEnd | Event::MappingEnd => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > MOST_DEPTH {
            return Err(format!("lists or mappings are nested more than {MOST_DEPTH} deep"));
        }
    }
    Ok(())
}

/// A mapping's keys and values.
pub(super) fn entries<'y>(node: &'y Yaml<'y>) -> Result<Vec<(&'y str, &'y Yaml<'y>)>, String> {
    let mapping = node.as_mapping().ok_or("expected `key: value`")?;
    let pair = |(key, value): (&'y Yaml<'y>, &'y Yaml<'y>)| Some((key.as_str()?, value));
    mapping.iter().map(pair).collect::<Option<_>>().ok_or_else(|| "a key is not a string".into())
}

/// A value that is a string.
pub(super) fn string<'y>(name: &str, value: &'y Yaml<'y>) -> Result<&'y str, String> {
    value.as_str().ok_or_else(|| format!("{name} is not a string"))
}
