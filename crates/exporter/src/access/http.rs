//! How a client of HTTP proves who it is and checks the server: Prometheus' HTTP client
//! configuration (prometheus.io, configuration, `http_config`; the file of `promtool
//! --http.config.file`), of which `basic_auth` and `tls_config` are read.

use std::path::Path;

use super::TlsClient;
use super::error::WebError;
use super::yaml::{each_entry, entries, error, relative, string, text};

/// A client's configuration.
#[derive(Default)]
pub(crate) struct HttpConfig {
    /// User name and password.
    pub(crate) user: Option<(String, String)>,
    pub(crate) tls: TlsClient,
}

/// The file's text.
#[derive(Debug, Default, PartialEq, Eq)]
struct Parsed {
    username: Option<String>,
    password: Option<String>,
    password_file: Option<String>,
    ca_file: Option<String>,
    server_name: Option<String>,
}

impl HttpConfig {
    pub(crate) fn read(path: &Path) -> Result<Self, WebError> {
        let wrong = |why: String| error(path, &why);
        let parsed = parse(&text(path)?).map_err(wrong)?;
        let Parsed { username, password, password_file, ca_file, server_name } = parsed;
        let password = match (password, password_file) {
            (Some(_), Some(_)) => {
                return Err(wrong("expected either password or password_file, found both".into()));
            }
            (None, Some(file)) => Some(text(&relative(path, &file))?.trim_end().to_owned()),
            (password, None) => password,
        };
        let user = match (username, password) {
            (None, None) => None,
            (Some(name), Some(password)) => Some((name, password)),
            _ => return Err(wrong("basic_auth needs username and password".into())),
        };
        let roots = ca_file.map(|file| relative(path, &file));
        Ok(Self { user, tls: TlsClient::new(roots.as_deref(), server_name)? })
    }
}

fn parse(text: &str) -> Result<Parsed, String> {
    let mut parsed = Parsed::default();
    each_entry(text, |section, node| {
        for (name, value) in entries(node).map_err(|why| format!("{section}: {why}"))? {
            let field = match (section, name) {
                ("basic_auth", "username") => &mut parsed.username,
                ("basic_auth", "password") => &mut parsed.password,
                ("basic_auth", "password_file") => &mut parsed.password_file,
                ("tls_config", "ca_file") => &mut parsed.ca_file,
                ("tls_config", "server_name") => &mut parsed.server_name,
                _ => return Err(format!("\"{section}: {name}\" is not supported")),
            };
            *field = Some(string(name, value)?.to_owned());
        }
        Ok(())
    })?;
    Ok(parsed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_and_certificates_are_read_and_other_keys_refused() {
        let text = "basic_auth: {username: u, password_file: p}\ntls_config: {ca_file: c}\n";
        let parsed = parse(text).unwrap();
        assert_eq!(
            (parsed.username.as_deref(), parsed.password_file.as_deref()),
            (Some("u"), Some("p"))
        );
        assert_eq!(parsed.ca_file.as_deref(), Some("c"));
        assert_eq!(parse(""), Ok(Parsed::default()));
        for wrong in [
            "proxy_url: http://a\n",
            "tls_config: {insecure_skip_verify: true}\n",
            "basic_auth: 1\n",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("http.yml");
        let read = |text: &str| {
            std::fs::write(&path, text).unwrap();
            HttpConfig::read(&path).map(|config| config.user).map_err(|error| error.why)
        };
        std::fs::write(folder.path().join("p"), "secret\n").unwrap();
        let user = Ok(Some(("u".to_owned(), "secret".to_owned())));
        assert_eq!(read("basic_auth: {username: u, password_file: p}\n"), user);
        assert!(read("basic_auth: {username: u}\n").unwrap_err().contains("needs"));
        assert!(read("basic_auth: {username: u, password: a, password_file: p}\n").is_err());
    }
}
