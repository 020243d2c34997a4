//! TLS from the side that connects.

use std::io::{Error, ErrorKind, Result};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use super::super::error::WebError;
use super::super::stream::ClientStream;
use super::super::yaml::{error, text};

/// Where distributions keep the certificates that they trust: Debian and Alpine, Fedora and
/// RHEL, openSUSE.
const SYSTEM: [&str; 3] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
];

/// Connects to servers whose certificates it trusts: those of a file, or the system's.
#[derive(Default)]
pub(crate) struct TlsClient {
    roots: Option<Arc<ClientConfig>>,
    server_name: Option<String>,
    system: OnceLock<Option<Arc<ClientConfig>>>,
}

impl TlsClient {
    pub(crate) fn new(
        roots: Option<&Path>,
        server_name: Option<String>,
    ) -> std::result::Result<Self, WebError> {
        let configured = |path: &Path| {
            let text = text(path)?;
            let certificates: std::result::Result<Vec<_>, _> =
                CertificateDer::pem_slice_iter(text.as_bytes()).collect();
            let certificates = certificates.map_err(|why| error(path, &why))?;
            let mut store = RootCertStore::empty();
            for certificate in certificates {
                store.add(certificate).map_err(|why| error(path, &why))?;
            }
            if store.is_empty() {
                return Err(error(path, &"the file has no certificate"));
            }
            config(store).map_err(|why| error(path, &why))
        };
        Ok(Self { roots: roots.map(configured).transpose()?, server_name, ..Self::default() })
    }

    pub(crate) fn connect(&self, host: &str, socket: TcpStream) -> Result<Box<dyn ClientStream>> {
        let system = || self.system.get_or_init(system).as_ref();
        let config = self.roots.as_ref().or_else(system).ok_or_else(|| {
            let paths = SYSTEM.join(", ");
            Error::new(
                ErrorKind::NotFound,
                format!("no CA certificates in {paths}: name a ca_file in --http-config"),
            )
        })?;
        let name = self.server_name.as_deref().unwrap_or(host).to_owned();
        let name = ServerName::try_from(name).map_err(Error::other)?;
        let client = ClientConnection::new(Arc::clone(config), name).map_err(Error::other)?;
        Ok(Box::new(StreamOwned::new(client, socket)))
    }
}

fn config(roots: RootCertStore) -> std::result::Result<Arc<ClientConfig>, rustls::Error> {
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?;
    Ok(Arc::new(builder.with_root_certificates(roots).with_no_client_auth()))
}

/// The certificates that the system trusts, as far as they can be read.
fn system() -> Option<Arc<ClientConfig>> {
    let bytes = SYSTEM.iter().map(PathBuf::from).find_map(|path| std::fs::read(path).ok())?;
    let mut store = RootCertStore::empty();
    store.add_parsable_certificates(CertificateDer::pem_slice_iter(&bytes).flatten());
    if store.is_empty() { None } else { config(store).ok() }
}
