//! The text of the exporter toolkit's file.

use std::collections::BTreeMap;

use saphyr::{LoadableYamlNode, Yaml};
use saphyr_parser::{Event, Parser};

/// A check of a hash takes 2 to the power of this: a second.
const MOST_COST: u32 = 14;
/// A file of this kind has mappings in a mapping. saphyr 0.3 goes as deep as the text, and so
/// beyond any stack.
const MOST_DEPTH: u32 = 8;

/// A web configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WebConfig {
    /// `tls_server_config`.
    pub tls: Option<Tls>,
    /// The bcrypt hash of each user's password; empty: everyone is admitted.
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
/// What is wrong with it, or which of its keys is not supported. Keys are refused rather
/// than ignored, so that nobody relies on one that has no effect.
pub fn parse(text: &str) -> Result<WebConfig, String> {
    check_depth(text)?;
    let documents = Yaml::load_from_str(text).map_err(|why| why.to_string())?;
    let mut config = WebConfig::default();
    // An empty file configures nothing.
    let Some(document) = documents.first().filter(|document| !document.is_null()) else {
        return Ok(config);
    };
    for (key, value) in entries(document)? {
        match key {
            "tls_server_config" => config.tls = Some(tls(value)?),
            "basic_auth_users" => config.users = users(value)?,
            _ => return Err(format!("{key:?} is not supported")),
        }
    }
    Ok(config)
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
fn entries<'y>(mapping: &'y Yaml<'y>) -> Result<Vec<(&'y str, &'y Yaml<'y>)>, String> {
    let mapping = mapping.as_mapping().ok_or("expected `key: value`")?;
    let pair = |(key, value): (&'y Yaml<'y>, &'y Yaml<'y>)| Some((key.as_str()?, value));
    mapping.iter().map(pair).collect::<Option<_>>().ok_or_else(|| "a key is not a string".into())
}

fn users(node: &Yaml<'_>) -> Result<BTreeMap<String, String>, String> {
    let user = |(name, hash): (&str, &Yaml<'_>)| {
        let hash = hash.as_str().unwrap_or_default();
        let cost = hash.parse::<bcrypt::HashParts>().map(|parts| parts.get_cost());
        match cost {
            Ok(0..=MOST_COST) => Ok((name.to_owned(), hash.to_owned())),
            Ok(cost) => {
                Err(format!("{name}: bcrypt cost {cost} exceeds the maximum of {MOST_COST}"))
            }
            Err(_) => Err(format!(
                "{name}: expected a bcrypt hash, such as `htpasswd -nBC 10 {name}` prints"
            )),
        }
    };
    entries(node)?.into_iter().map(user).collect()
}

fn tls(node: &Yaml<'_>) -> Result<Tls, String> {
    let (mut certificate, mut key, mut only_tls13) = (None, None, false);
    for (name, value) in entries(node)? {
        let value = value.as_str().ok_or_else(|| format!("{name} is not a string"))?;
        match (name, value) {
            ("cert_file", _) => certificate = Some(value.to_owned()),
            ("key_file", _) => key = Some(value.to_owned()),
            ("min_version", "TLS12") | ("client_auth_type", "NoClientCert") => {}
            ("min_version", "TLS13") => only_tls13 = true,
            _ => return Err(format!("\"{name}: {value}\" is not supported")),
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
