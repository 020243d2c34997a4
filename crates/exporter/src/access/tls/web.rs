//! The text of the exporter toolkit's file.

use std::collections::BTreeMap;

use saphyr::Yaml;

use super::super::yaml::{each_entry, entries, string};

/// A check of a hash takes 2 to the power of this: a second.
const MOST_COST: u32 = 14;

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
    let mut config = WebConfig::default();
    each_entry(text, |key, value| {
        match key {
            "tls_server_config" => config.tls = Some(tls(value)?),
            "basic_auth_users" => config.users = users(value)?,
            _ => return Err(format!("{key:?} is not supported")),
        }
        Ok(())
    })?;
    Ok(config)
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
        let value = string(name, value)?;
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
