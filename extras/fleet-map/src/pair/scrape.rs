//! A page over plain HTTP, by a GET of bounded size and time.

use std::io::{Error, ErrorKind, Read, Result, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

/// An exporter's page is no larger.
pub const MOST_BYTES: usize = 8 << 20;
/// Nor is a Prometheus' page of 20,000 nodes with 8 peers each.
const MOST_FEDERATED_BYTES: usize = 256 << 20;

/// `match[]={__name__=~"parachron_(pair|clock_offset)_.*"}`
const FEDERATE: &str =
    "federate?match%5B%5D=%7B__name__%3D~%22parachron_%28pair%7Cclock_offset%29_.%2A%22%7D";

/// An exporter's page, `http://HOST:PORT/PATH`; `/metrics` without a path.
///
/// # Errors
/// The URL is malformed; the page is too large, not text, or did not arrive in time.
pub fn page(url: &str, timeout: Duration) -> Result<String> {
    let url = Url::parse(url)?;
    let path = if url.path.is_empty() { "metrics" } else { url.path };
    get(&url, path, MOST_BYTES, timeout)
}

/// The series of all nodes that a Prometheus has; the URL is the one at which it is
/// browsed, such as `http://prometheus:9090`.
///
/// # Errors
/// As of [`page`].
pub fn federated(url: &str, timeout: Duration) -> Result<String> {
    let url = Url::parse(url)?;
    let base = url.path.trim_end_matches('/');
    let path = if base.is_empty() { FEDERATE.to_owned() } else { format!("{base}/{FEDERATE}") };
    get(&url, &path, MOST_FEDERATED_BYTES, timeout)
}

fn get(url: &Url<'_>, path: &str, most: usize, timeout: Duration) -> Result<String> {
    let until = Instant::now() + timeout;
    let left = || {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(Error::from(ErrorKind::TimedOut)) } else { Ok(left) }
    };
    let mut addresses = (url.host, url.port).to_socket_addrs()?;
    let address =
        addresses.next().ok_or_else(|| malformed("the URL's host name resolves to no address"))?;
    let mut stream = TcpStream::connect_timeout(&address, left()?)?;
    stream.set_write_timeout(Some(left()?))?;
    // By 1.0 no server sends the page in chunks.
    let host = url.authority;
    let request = format!("GET /{path} HTTP/1.0\r\nHost: {host}\r\nAccept: text/plain\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let (mut page, mut buffer) = (Vec::new(), [0; 16 * 1024]);
    loop {
        stream.set_read_timeout(Some(left()?))?;
        let length = match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(length) => length,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        page.extend_from_slice(&buffer[..length]);
        if page.len() > most {
            return Err(Error::other(format!("the page is larger than {most} bytes")));
        }
    }
    body(page)
}

struct Url<'u> {
    authority: &'u str,
    host: &'u str,
    port: u16,
    path: &'u str,
}

fn malformed(why: &str) -> Error {
    Error::new(ErrorKind::InvalidInput, why)
}

impl<'u> Url<'u> {
    fn parse(url: &'u str) -> Result<Self> {
        let wrong = || malformed("expected http://HOST:PORT/PATH");
        if url.starts_with("https://") {
            return Err(malformed("TLS is not supported; read from a proxy that ends it"));
        }
        let rest = url.strip_prefix("http://").ok_or_else(wrong)?;
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let is_plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
        if authority.is_empty() || !is_plain(authority) || !is_plain(path) {
            return Err(wrong());
        }
        if authority.contains('@') {
            return Err(malformed("passwords are not supported; read from a proxy that adds them"));
        }
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => {
                (host, port.parse().map_err(|_| wrong())?)
            }
            _ => (authority, 80),
        };
        let host = host.trim_start_matches('[').trim_end_matches(']');
        Ok(Self { authority, host, port, path })
    }
}

fn body(page: Vec<u8>) -> Result<String> {
    let wrong = |why: &str| Error::new(ErrorKind::InvalidData, why);
    let page = String::from_utf8(page).map_err(|_| wrong("the reply is not text"))?;
    let (head, body) = page.split_once("\r\n\r\n").ok_or_else(|| wrong("the reply is not HTTP"))?;
    let status = head.split(' ').nth(1).unwrap_or_default();
    if !head.starts_with("HTTP/1.") || status != "200" {
        let status: String = status.chars().take(3).collect();
        return Err(wrong(&format!("the server replied with status {status:?}")));
    }
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
    });
    if length.is_some_and(|length| body.len() < length) {
        return Err(wrong("the connection closed before the end of the page"));
    }
    Ok(body.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_and_ports_are_found() {
        let parsed = |url| {
            Url::parse(url).ok().map(|url| (url.host.to_owned(), url.port, url.path.to_owned()))
        };
        let of = |host: &str, port, path: &str| Some((host.to_owned(), port, path.to_owned()));
        assert_eq!(parsed("http://a"), of("a", 80, ""));
        assert_eq!(parsed("http://a:9975/x?y"), of("a", 9975, "x?y"));
        assert_eq!(parsed("http://[2001:db8::1]/"), of("2001:db8::1", 80, ""));
        assert_eq!(parsed("http://[::1]:9975/metrics"), of("::1", 9975, "metrics"));
        for wrong in [
            "a:9975",
            "ftp://a/",
            "https://a/",
            "http://",
            "http://a:b/",
            "http://u:p@a/",
            "http://a b/",
        ] {
            assert_eq!(parsed(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_page_that_was_cut_off_is_refused() {
        let of = |text: &str| body(text.as_bytes().to_vec()).ok();
        assert_eq!(of("HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nup 1").as_deref(), Some("up 1"));
        assert_eq!(of("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nup 1"), None);
        assert_eq!(of("HTTP/1.0 200 OK\r\n\r\nup 1").as_deref(), Some("up 1"));
    }
}
