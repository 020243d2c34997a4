#![cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
//! The server by a file of the exporter toolkit: TLS, passwords, and what is renewed.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use exporter::pair::Client;
use exporter::{REQUEST_TIMEOUT, ScrapeReply, ServedPages, WebAccess};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

/// Writes a new certificate and its key into the folder.
fn certificate(folder: &Path) -> CertificateDer<'static> {
    let made = rcgen::generate_simple_self_signed(vec!["node".to_owned()]).unwrap();
    std::fs::write(folder.join("node.crt"), made.cert.pem()).unwrap();
    std::fs::write(folder.join("node.key"), made.signing_key.serialize_pem()).unwrap();
    made.cert.der().clone()
}

fn server(folder: &Path, text: &str) -> SocketAddr {
    let path = folder.join("web.yml");
    std::fs::write(&path, text).unwrap();
    let access = WebAccess::from_file(&path).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let reply_of_test = || ScrapeReply { metrics: "one 1\n# EOF\n".into(), status: None };
    std::thread::spawn(move || exporter::serve(listener, access, ServedPages::All, reply_of_test));
    address
}

fn ask(mut stream: impl Read + Write, credentials: Option<&str>) -> String {
    let lines = credentials.map_or(String::new(), |words| {
        format!("Authorization: Basic {}\r\n", STANDARD.encode(words))
    });
    let _ = stream.write_all(format!("GET /metrics HTTP/1.1\r\nHost: a\r\n{lines}\r\n").as_bytes());
    let mut reply = Vec::new();
    // Without TLS's own end.
    let _ = stream.read_to_end(&mut reply);
    String::from_utf8_lossy(&reply).into_owned()
}

/// By TLS, if the server shows that certificate.
fn ask_by_tls(address: SocketAddr, shown: &CertificateDer<'static>) -> String {
    let mut roots = RootCertStore::empty();
    roots.add(shown.clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.unwrap().with_root_certificates(roots).with_no_client_auth();
    let name = ServerName::try_from("node").unwrap();
    let client = ClientConnection::new(Arc::new(config), name).unwrap();
    ask(StreamOwned::new(client, TcpStream::connect(address).unwrap()), None)
}

const TLS: &str = "tls_server_config:\n  cert_file: node.crt\n  key_file: node.key\n";

#[test]
fn a_certificate_is_shown_and_a_renewed_one_within_seconds() {
    let folder = tempfile::tempdir().unwrap();
    let first = certificate(folder.path());
    let address = server(folder.path(), TLS);
    assert!(ask_by_tls(address, &first).ends_with("\r\n\r\none 1\n# EOF\n"));
    // Nobody without TLS, and one who says nothing holds up none.
    assert!(!ask(TcpStream::connect(address).unwrap(), None).contains("one 1"));
    let slow: Vec<_> = (0..300).map(|_| TcpStream::connect(address).unwrap()).collect();
    let begun = Instant::now();
    assert!(ask_by_tls(address, &first).contains("one 1"));
    assert!(begun.elapsed() < REQUEST_TIMEOUT, "{:?}", begun.elapsed());
    drop(slow);
    // A key that is half written does not end the service.
    std::fs::write(folder.path().join("node.key"), "-----BEGIN").unwrap();
    std::thread::sleep(Duration::from_secs(11));
    assert!(ask_by_tls(address, &first).contains("one 1"));
    let second = certificate(folder.path());
    std::thread::sleep(Duration::from_secs(11));
    assert!(ask_by_tls(address, &second).contains("one 1"));
    assert!(!ask_by_tls(address, &first).contains("one 1"));
}

#[test]
fn who_has_no_password_reads_nothing_and_holds_up_no_user() {
    let folder = tempfile::tempdir().unwrap();
    let hash = bcrypt::hash("sesame", 6).unwrap();
    let address = server(folder.path(), &format!("basic_auth_users:\n  alice: \"{hash}\"\n"));
    let ask = |credentials| ask(TcpStream::connect(address).unwrap(), credentials);
    assert!(ask(Some("alice:sesame")).contains("one 1"));
    for wrong in [None, Some("alice:sesam"), Some("bob:sesame"), Some("alice"), Some(":")] {
        let reply = ask(wrong).to_lowercase();
        assert!(reply.starts_with("http/1.1 401 "), "{wrong:?}: {reply}");
        assert!(reply.contains("www-authenticate: basic") && !reply.contains("one 1"), "{reply}");
    }
    // Each waits for half a second, one after the other.
    let flood: Vec<_> = (0..50)
        .map(|_| {
            let mut stream = TcpStream::connect(address).unwrap();
            let wrong = "GET /metrics HTTP/1.1\r\nHost: a\r\nAuthorization: Basic YTpi\r\n\r\n";
            stream.write_all(wrong.as_bytes()).unwrap();
            stream
        })
        .collect();
    let begun = Instant::now();
    assert!(ask(Some("alice:sesame")).contains("one 1"));
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    drop(flood);
}

/// What `fleet map --from https://…` reads: what our own exporter serves.
#[test]
fn a_client_reads_what_the_server_protects() {
    let folder = tempfile::tempdir().unwrap();
    certificate(folder.path());
    let hash = bcrypt::hash("sesame", 6).unwrap();
    let address = server(folder.path(), &format!("{TLS}basic_auth_users:\n  alice: \"{hash}\"\n"));
    let page = |config: &str| {
        let path = folder.path().join("http.yml");
        std::fs::write(&path, config).unwrap();
        let client = Client::from_file(&path).unwrap();
        client.page(&format!("https://{address}/metrics"), Duration::from_secs(10))
    };
    let trusted = "tls_config: {ca_file: node.crt, server_name: node}\n";
    let user = "basic_auth: {username: alice, password: sesame}\n";
    assert_eq!(page(&format!("{trusted}{user}")).unwrap(), "one 1\n# EOF\n");
    let refused = |config: &str| page(config).unwrap_err().to_string();
    assert!(refused(trusted).contains("401"), "{}", refused(trusted));
    // A certificate of another name, and one that nobody vouches for.
    let other_name = format!("tls_config: {{ca_file: node.crt, server_name: other}}\n{user}");
    assert!(refused(&other_name).contains("not valid for name"), "{}", refused(&other_name));
    let unknown = format!("tls_config: {{server_name: node}}\n{user}");
    assert!(!refused(&unknown).is_empty());
}
