//! TLS and passwords by the web configuration of Prometheus' exporter toolkit
//! (github.com/prometheus/exporter-toolkit, docs/web-configuration.md).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;

use super::super::error::WebError;
use super::super::stream::ServedStream;
use super::super::yaml::{error, relative, text};
use super::passwords::Passwords;
use super::web::{Tls, parse};

const TLS13: &[&rustls::SupportedProtocolVersion] = &[&rustls::version::TLS13];

/// Certificates are renewed while a server runs.
const REREAD_AFTER: Duration = Duration::from_secs(10);

/// Admits the users whom the file names, over TLS if it configures that.
pub(crate) struct Secured {
    path: PathBuf,
    /// The configuration, and when it was read.
    web: Mutex<(Instant, Arc<Web>)>,
    passwords: Passwords,
}

impl Secured {
    pub(crate) fn read(path: &Path) -> Result<Self, WebError> {
        let web = Mutex::new((Instant::now(), Arc::new(Web::read(path)?)));
        Ok(Self { path: path.to_owned(), web, passwords: Passwords::default() })
    }

    /// The configuration in force. A file that has become invalid, or dropped TLS or all
    /// passwords, is ignored, as a file is for a moment while an editor writes it: weaker
    /// access control needs a restart.
    fn current(&self) -> Arc<Web> {
        let mut last = self.web.lock().unwrap_or_else(|broken| broken.into_inner());
        if last.0.elapsed() > REREAD_AFTER {
            let web = Web::read(&self.path).ok().filter(|web| !web.is_weaker_than(&last.1));
            let web = web.map_or_else(|| Arc::clone(&last.1), Arc::new);
            *last = (Instant::now(), web);
        }
        Arc::clone(&last.1)
    }

    pub(crate) async fn accept(&self, stream: TcpStream) -> Option<Box<dyn ServedStream>> {
        match &self.current().tls {
            None => Some(Box::new(stream)),
            Some(tls) => Some(Box::new(tls.accept(stream).await.ok()?)),
        }
    }

    pub(crate) async fn authorizes(&self, authorization: Option<&[u8]>) -> bool {
        let web = self.current();
        web.users.is_empty() || self.passwords.admit(&web.users, authorization).await
    }
}

/// A configuration with the files that it names.
#[derive(Default)]
struct Web {
    /// None: connections are not encrypted.
    tls: Option<TlsAcceptor>,
    /// The bcrypt hash of each user's password; empty: everyone is admitted.
    users: BTreeMap<String, String>,
}

impl Web {
    /// Whether TLS or all passwords are missing that the other has.
    fn is_weaker_than(&self, other: &Self) -> bool {
        (self.tls.is_none() && other.tls.is_some())
            || (self.users.is_empty() && !other.users.is_empty())
    }

    /// Reads the file, and the certificate and key that it names, relative to itself.
    fn read(path: &Path) -> Result<Self, WebError> {
        let config = parse(&text(path)?).map_err(|why| error(path, &why))?;
        let tls = config.tls.map(|tls| acceptor(path, &tls)).transpose()?;
        Ok(Self { tls, users: config.users })
    }
}

fn acceptor(path: &Path, tls: &Tls) -> Result<TlsAcceptor, WebError> {
    let (certificate, key) = (relative(path, &tls.certificate), relative(path, &tls.key));
    let chain: Result<Vec<_>, _> =
        CertificateDer::pem_slice_iter(text(&certificate)?.as_bytes()).collect();
    let chain = chain.map_err(|why| error(&certificate, &why))?;
    let private =
        PrivateKeyDer::from_pem_slice(text(&key)?.as_bytes()).map_err(|why| error(&key, &why))?;
    let versions = if tls.only_tls13 { TLS13 } else { rustls::ALL_VERSIONS };
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(versions)
        .map(|builder| builder.with_no_client_auth().with_single_cert(chain, private))
        .and_then(|config| config)
        .map_err(|why| error(&certificate, &why))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Why a file of that text is wrong.
    fn wrong(text: &str) -> Option<String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("web.yml");
        std::fs::write(&path, text).unwrap();
        Secured::read(&path).err().map(|error| error.why)
    }

    /// An editor empties a file before it writes it.
    #[test]
    fn a_file_asks_for_less_without_the_passwords_that_it_had() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("web.yml");
        let of = |text: &str| {
            std::fs::write(&path, text).unwrap();
            Web::read(&path).unwrap()
        };
        let hash = bcrypt::hash("secret", 4).unwrap();
        let alice = of(&format!("basic_auth_users:\n  alice: {hash}\n"));
        let both = of(&format!("basic_auth_users:\n  alice: {hash}\n  bob: {hash}\n"));
        let nobody = of("");
        assert!(nobody.is_weaker_than(&alice));
        assert!(!alice.is_weaker_than(&nobody) && !alice.is_weaker_than(&both));
        let long = format!("{}\nbasic_auth_users:\n  alice: {hash}\n", "#".repeat(64 << 10));
        assert!(wrong(&long).is_some_and(|why| why.contains("longer than 65536 bytes")));
    }

    #[test]
    fn unsupported_keys_and_bad_values_are_refused() {
        let hash = bcrypt::hash("secret", 4).unwrap();
        for right in ["", "# nothing\n", &format!("basic_auth_users:\n  alice: {hash}\n")] {
            assert_eq!(wrong(right), None, "{right}");
        }
        for (text, why) in [
            ("http_server_config:\n  http2: true\n", "\"http_server_config\" is not supported"),
            ("tls_server_config:\n  client_ca_file: ca\n", "client_ca_file: ca"),
            ("tls_server_config:\n  cert_file: a\n", "needs cert_file and key_file"),
            ("basic_auth_users:\n  alice: secret\n", "alice: expected a bcrypt hash"),
            (
                &format!("basic_auth_users:\n  alice: {}\n", hash.replace("$04$", "$31$")),
                "cost 31 exceeds",
            ),
            ("basic_auth_users: alice\n", "expected `key: value`"),
            ("a: b: c\n", ""),
            ("? [a]\n: b\n", "a key is not a string"),
        ] {
            assert!(
                wrong(text).is_some_and(|said| said.contains(why)),
                "{text}: {:?}",
                wrong(text)
            );
        }
        assert!(Secured::read(Path::new("/no/such")).is_err());
    }
}
