//! Who may ask, and by what: the file of Prometheus' exporter toolkit
//! (github.com/prometheus/exporter-toolkit, docs/web-configuration.md), of which this is
//! read: `tls_server_config` with `cert_file`, `key_file` and `min_version`, and
//! `basic_auth_users`. What else is there is refused, so that nobody takes it for heeded.

mod passwords;
mod web;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;

use crate::access::passwords::Passwords;
pub use crate::access::web::{Asked, Tls, parse};
use crate::gate::Gate;

/// A longer file is none of these.
const MOST_BYTES: u64 = 64 << 10;
const TLS13: &[&rustls::SupportedProtocolVersion] = &[&rustls::version::TLS13];

/// Certificates are renewed while a server runs.
const ANEW: Duration = Duration::from_secs(10);

/// A file cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{}: {why}", path.display())]
pub struct WebError {
    /// Which.
    pub path: PathBuf,
    /// Why.
    pub why: String,
}

/// Lets in whom the file names, by TLS if it says so.
pub struct Secured {
    path: PathBuf,
    /// What it says, and when it was read.
    web: Mutex<(Instant, Arc<Web>)>,
    passwords: Passwords,
}

/// With TLS or without.
pub trait Secure: AsyncRead + AsyncWrite + Unpin + Send {}
impl<S: AsyncRead + AsyncWrite + Unpin + Send> Secure for S {}

impl Secured {
    /// By that file.
    ///
    /// # Errors
    /// What is wrong with it, or with a file that it names.
    pub fn by(path: &Path) -> Result<Self, WebError> {
        let web = Mutex::new((Instant::now(), Arc::new(Web::read(path)?)));
        Ok(Self { path: path.to_owned(), web, passwords: Passwords::default() })
    }

    /// What it says now: a file that has become wrong, or asks for less than it did, is not
    /// heeded, as one that is being written is so for a moment. Less takes a restart.
    fn now(&self) -> Arc<Web> {
        let mut last = self.web.lock().unwrap_or_else(|broken| broken.into_inner());
        if last.0.elapsed() > ANEW {
            let web = Web::read(&self.path).ok().filter(|web| !web.asks_less_than(&last.1));
            let web = web.map_or_else(|| Arc::clone(&last.1), Arc::new);
            *last = (Instant::now(), web);
        }
        Arc::clone(&last.1)
    }
}

impl Gate for Secured {
    type Stream = Box<dyn Secure>;

    async fn enter(&self, stream: TcpStream) -> Option<Box<dyn Secure>> {
        match &self.now().tls {
            None => Some(Box::new(stream)),
            Some(tls) => Some(Box::new(tls.accept(stream).await.ok()?)),
        }
    }

    async fn lets_in(&self, authorization: Option<&[u8]>) -> bool {
        let web = self.now();
        web.users.is_empty() || self.passwords.let_in(&web.users, authorization).await
    }
}

/// What the file says, with the files that it names.
#[derive(Default)]
struct Web {
    /// Nobody without TLS.
    tls: Option<TlsAcceptor>,
    /// bcrypt's hash of each user's password; anybody where there are none.
    users: BTreeMap<String, String>,
}

impl Web {
    /// Neither TLS nor passwords where there were some.
    fn asks_less_than(&self, other: &Self) -> bool {
        (self.tls.is_none() && other.tls.is_some())
            || (self.users.is_empty() && !other.users.is_empty())
    }

    /// Reads the file, and the certificate and key that it names, relative to itself.
    fn read(path: &Path) -> Result<Self, WebError> {
        let asked = parse(&text(path)?).map_err(|why| WebError { path: path.to_owned(), why })?;
        let tls = asked.tls.map(|tls| acceptor(path, &tls)).transpose()?;
        Ok(Self { tls, users: asked.users })
    }
}

fn text(path: &Path) -> Result<String, WebError> {
    let wrong = |why: io::Error| WebError { path: path.to_owned(), why: why.to_string() };
    let mut text = String::new();
    let file = File::open(path).map_err(wrong)?;
    file.take(MOST_BYTES + 1).read_to_string(&mut text).map_err(wrong)?;
    if text.len() as u64 > MOST_BYTES {
        return Err(wrong(io::Error::other(format!("longer than {MOST_BYTES} bytes"))));
    }
    Ok(text)
}

fn acceptor(path: &Path, asked: &Tls) -> Result<TlsAcceptor, WebError> {
    let of_file = |path: &Path, why: &dyn std::fmt::Display| WebError {
        path: path.to_owned(),
        why: why.to_string(),
    };
    let beside = |name: &str| path.with_file_name("").join(name);
    let (certificate, key) = (beside(&asked.certificate), beside(&asked.key));
    let chain: Result<Vec<_>, _> =
        CertificateDer::pem_slice_iter(text(&certificate)?.as_bytes()).collect();
    let chain = chain.map_err(|why| of_file(&certificate, &why))?;
    let private =
        PrivateKeyDer::from_pem_slice(text(&key)?.as_bytes()).map_err(|why| of_file(&key, &why))?;
    let versions = if asked.only_tls13 { TLS13 } else { rustls::ALL_VERSIONS };
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(versions)
        .map(|builder| builder.with_no_client_auth().with_single_cert(chain, private))
        .and_then(|config| config)
        .map_err(|why| of_file(&certificate, &why))?;
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
        Secured::by(&path).err().map(|error| error.why)
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
        assert!(nobody.asks_less_than(&alice));
        assert!(!alice.asks_less_than(&nobody) && !alice.asks_less_than(&both));
        let long = format!("{}\nbasic_auth_users:\n  alice: {hash}\n", "#".repeat(64 << 10));
        assert!(wrong(&long).is_some_and(|why| why.contains("longer than 65536 bytes")));
    }

    #[test]
    fn what_is_not_heeded_is_refused() {
        let hash = bcrypt::hash("secret", 4).unwrap();
        for right in ["", "# nothing\n", &format!("basic_auth_users:\n  alice: {hash}\n")] {
            assert_eq!(wrong(right), None, "{right}");
        }
        for (text, why) in [
            ("http_server_config:\n  http2: true\n", "\"http_server_config\" is not heeded here"),
            ("tls_server_config:\n  client_ca_file: ca\n", "client_ca_file: ca"),
            ("tls_server_config:\n  cert_file: a\n", "needs cert_file and key_file"),
            ("basic_auth_users:\n  alice: secret\n", "alice: expected bcrypt's hash"),
            (
                &format!("basic_auth_users:\n  alice: {}\n", hash.replace("$04$", "$31$")),
                "cost is 31",
            ),
            ("basic_auth_users: alice\n", "expected `key: value`"),
            ("a: b: c\n", ""),
            ("? [a]\n: b\n", "a key is no text"),
        ] {
            assert!(
                wrong(text).is_some_and(|said| said.contains(why)),
                "{text}: {:?}",
                wrong(text)
            );
        }
        assert!(Secured::by(Path::new("/no/such")).is_err());
    }
}
