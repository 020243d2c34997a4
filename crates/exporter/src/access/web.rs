//! The text of the exporter toolkit's file.

use std::collections::BTreeMap;

use saphyr::{LoadableYamlNode, Yaml};
use saphyr_parser::{Event, Parser};

/// A check of a hash takes 2 to the power of this: a second.
const MOST_COST: u32 = 14;
/// A file of this kind has mappings in a mapping. saphyr 0.3 goes as deep as the text, and so
/// beyond any stack.
const MOST_DEPTH: u32 = 8;

/// What the file asks for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Asked {
    /// TLS, and by what.
    pub tls: Option<Tls>,
    /// bcrypt's hash of each user's password; anybody where there are none.
    pub users: BTreeMap<String, String>,
}

/// `tls_server_config`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tls {
    /// `cert_file`.
    pub certificate: String,
    /// `key_file`.
    pub key: String,
    /// `min_version: TLS13`.
    pub only_tls13: bool,
}

/// Reads the file's text.
///
/// # Errors
/// What is wrong with it, or not heeded here.
pub fn parse(text: &str) -> Result<Asked, String> {
    shallow(text)?;
    let documents = Yaml::load_from_str(text).map_err(|why| why.to_string())?;
    let mut asked = Asked::default();
    // An empty file asks for nothing.
    let Some(document) = documents.first().filter(|it| !it.is_null()) else { return Ok(asked) };
    for (key, value) in pairs(document)? {
        match key {
            "tls_server_config" => asked.tls = Some(tls(value)?),
            "basic_auth_users" => asked.users = users(value)?,
            _ => return Err(format!("{key:?} is not heeded here")),
        }
    }
    Ok(asked)
}

/// Whether its lists and mappings are not deep in each other.
fn shallow(text: &str) -> Result<(), String> {
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
fn pairs<'y>(of: &'y Yaml<'y>) -> Result<Vec<(&'y str, &'y Yaml<'y>)>, String> {
    let mapping = of.as_mapping().ok_or("expected `key: value`")?;
    let pair = |(key, value): (&'y Yaml<'y>, &'y Yaml<'y>)| Some((key.as_str()?, value));
    mapping.iter().map(pair).collect::<Option<_>>().ok_or_else(|| "a key is no text".into())
}

fn users(of: &Yaml<'_>) -> Result<BTreeMap<String, String>, String> {
    let user = |(name, hash): (&str, &Yaml<'_>)| {
        let hash = hash.as_str().unwrap_or_default();
        let cost = hash.parse::<bcrypt::HashParts>().map(|parts| parts.get_cost());
        match cost {
            Ok(0..=MOST_COST) => Ok((name.to_owned(), hash.to_owned())),
            Ok(cost) => Err(format!("{name}: bcrypt's cost is {cost}, at most {MOST_COST}")),
            Err(_) => {
                Err(format!("{name}: expected bcrypt's hash, as `htpasswd -nBC 10` makes it"))
            }
        }
    };
    pairs(of)?.into_iter().map(user).collect()
}

fn tls(of: &Yaml<'_>) -> Result<Tls, String> {
    let (mut certificate, mut key, mut only_tls13) = (None, None, false);
    for (name, value) in pairs(of)? {
        let value = value.as_str().ok_or_else(|| format!("{name} is no text"))?;
        match (name, value) {
            ("cert_file", _) => certificate = Some(value.to_owned()),
            ("key_file", _) => key = Some(value.to_owned()),
            ("min_version", "TLS12") | ("client_auth_type", "NoClientCert") => {}
            ("min_version", "TLS13") => only_tls13 = true,
            _ => return Err(format!("\"{name}: {value}\" is not heeded here")),
        }
    }
    let (certificate, key) =
        certificate.zip(key).ok_or("tls_server_config needs cert_file and key_file")?;
    Ok(Tls { certificate, key, only_tls13 })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of 64 KB, in a thread with the stack of a server's.
    #[test]
    fn what_is_deep_or_multiplies_is_refused() {
        let doubled = (1..30).map(|n| format!("a{n}: &a{n} [*a{}, *a{}]\n", n - 1, n - 1));
        let laughs = "a0: &a0 [x]\n".to_owned() + &doubled.collect::<String>();
        let texts = ["[".repeat(60_000), "{a: ".repeat(15_000), "- ".repeat(30_000), laughs];
        for text in texts {
            let parsed = std::thread::spawn(move || parse(&text)).join();
            assert!(parsed.is_ok_and(|parsed| parsed.is_err()));
        }
    }
}
