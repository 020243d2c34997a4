//! The exporter toolkit's file: who may read the metrics.

use std::fmt::Write;

use exporter::access::{self, WebConfig};

/// A longer one is not read.
const MOST_BYTES: usize = 64 << 10;

/// What it asks for, written plainly, asks for the same.
pub(crate) fn configuration(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    if text.len() > MOST_BYTES {
        return;
    }
    let Ok(asked) = access::parse(&text) else { return };
    assert_eq!(access::parse(&plain(&asked)), Ok(asked.clone()));
    for hash in asked.users.values() {
        // A check of it takes a second at the most.
        let cost = hash.split('$').nth(2).and_then(|cost| cost.parse().ok());
        assert!(cost.is_some_and(|cost: u32| cost <= 14), "{hash}");
    }
}

/// Each text in double quotes, with what is not plain ASCII by its number (YAML 1.2, 5.7).
fn plain(asked: &WebConfig) -> String {
    let quoted = |text: &str| {
        let mut quoted = String::from("\"");
        for c in text.chars() {
            if c.is_ascii_alphanumeric() {
                quoted.push(c);
            } else {
                // Writing to a string does not fail.
                let _ = write!(quoted, "\\U{:08x}", u32::from(c));
            }
        }
        quoted + "\""
    };
    let mut text = String::from("{");
    if let Some(tls) = &asked.tls {
        let version = if tls.only_tls13 { "TLS13" } else { "TLS12" };
        let (certificate, key) = (quoted(&tls.certificate), quoted(&tls.key));
        // Writing to a string does not fail.
        let _ = write!(
            text,
            "tls_server_config: {{cert_file: {certificate}, key_file: {key}, min_version: {version}}}, "
        );
    }
    text += "basic_auth_users: {";
    for (name, hash) in &asked.users {
        // A key in quotes may be long only with a question mark (YAML 1.2, 7.4.2).
        let _ = write!(text, "? {} : {}, ", quoted(name), quoted(hash));
    }
    text + "}}\n"
}
