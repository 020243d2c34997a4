//! An exporter's page, by a plain GET of bounded size and time.

use std::io::{Error, ErrorKind, Read, Result, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

/// A page is no larger.
pub const MOST_BYTES: usize = 8 << 20;

/// The page at `http://HOST:PORT/PATH`, within that time.
///
/// # Errors
/// It is none, or too large, or did not come in time.
pub fn get(url: &str, timeout: Duration) -> Result<String> {
    let wrong = |why: &str| Error::new(ErrorKind::InvalidInput, why);
    let rest = url.strip_prefix("http://").ok_or_else(|| wrong("expected http://HOST:PORT"))?;
    let (authority, path) = rest.split_once('/').unwrap_or((rest, "metrics"));
    let is_plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
    if authority.is_empty() || !is_plain(authority) || !is_plain(path) {
        return Err(wrong("expected http://HOST:PORT/PATH"));
    }
    let until = Instant::now() + timeout;
    let left = || {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(Error::from(ErrorKind::TimedOut)) } else { Ok(left) }
    };
    let with_port = if authority.ends_with(']') || !authority.contains(':') {
        format!("{authority}:80")
    } else {
        authority.to_owned()
    };
    let address = with_port.to_socket_addrs()?.next().ok_or_else(|| wrong("it has no address"))?;
    let mut stream = TcpStream::connect_timeout(&address, left()?)?;
    stream.set_write_timeout(Some(left()?))?;
    // By 1.0 no server sends the page in chunks.
    let request =
        format!("GET /{path} HTTP/1.0\r\nHost: {authority}\r\nAccept: text/plain\r\n\r\n");
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
        if page.len() > MOST_BYTES {
            return Err(Error::other(format!("it is larger than {MOST_BYTES} bytes")));
        }
    }
    body(page)
}

fn body(page: Vec<u8>) -> Result<String> {
    let wrong = |why: &str| Error::new(ErrorKind::InvalidData, why);
    let page = String::from_utf8(page).map_err(|_| wrong("it is no text"))?;
    let (head, body) = page.split_once("\r\n\r\n").ok_or_else(|| wrong("it is no HTTP"))?;
    let status = head.split(' ').nth(1).unwrap_or_default();
    if !head.starts_with("HTTP/1.") || status != "200" {
        return Err(wrong(&format!(
            "it replied with status {:?}",
            status.chars().take(3).collect::<String>()
        )));
    }
    Ok(body.to_owned())
}
