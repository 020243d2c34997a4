//! Exporters that never end, and requests that are not to be answered.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::time::{Duration, Instant};

use fleet_map::pair::scrape::{self, MOST_BYTES};
use fleet_map::pair::{Networks, NodeClock, Prober, Responder};

/// An exporter that does `serve` with each connection.
fn exporter(serve: fn(std::net::TcpStream)) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/metrics", listener.local_addr().unwrap());
    std::thread::spawn(move || listener.incoming().flatten().for_each(serve));
    url
}

#[test]
fn a_page_that_never_ends_is_left_by_size_and_by_time() {
    let endless = exporter(|mut stream| {
        let _ = stream.write_all(b"HTTP/1.0 200 OK\r\n\r\n");
        while stream.write_all(&[b'a'; 65_536]).is_ok() {}
    });
    let error = scrape::page(&endless, Duration::from_secs(60)).unwrap_err();
    assert_eq!(error.to_string(), format!("the page is larger than {MOST_BYTES} bytes"));

    let slow = exporter(|mut stream| {
        while stream.write_all(b"H").is_ok() {
            std::thread::sleep(Duration::from_millis(50));
        }
    });
    let begun = Instant::now();
    let error = scrape::page(&slow, Duration::from_secs(1)).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::TimedOut | ErrorKind::WouldBlock), "{error}");
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
}

#[test]
fn only_a_page_is_a_page() {
    let other = exporter(|mut stream| {
        let _ = stream.read(&mut [0; 1024]);
        let _ = stream.write_all(b"HTTP/1.1 301 Moved\r\nLocation: http://a/\r\n\r\n");
    });
    assert!(scrape::page(&other, Duration::from_secs(10)).unwrap_err().to_string().contains("301"));
    for wrong in [
        "ftp://a/",
        "http://",
        "http://a b/",
        "https://a/",
        "file:///etc/passwd",
        "http://a/\r\nX: y",
    ] {
        let error = scrape::page(wrong, Duration::from_secs(1)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{wrong}: {error}");
    }
}

fn responder(networks: &str) -> SocketAddr {
    let networks: Networks = networks.parse().unwrap();
    let responder = Responder::bind("127.0.0.1:0".parse().unwrap(), networks, NodeClock::default());
    let responder = responder.unwrap();
    let address = responder.address().unwrap();
    std::thread::spawn(move || responder.run());
    address
}

#[test]
fn who_is_not_named_gets_no_reply() {
    let address = responder("10.0.0.0/8");
    let asked = Prober::default().probe(address, Duration::from_millis(300), NodeClock::default());
    assert!(asked.is_err());
}

#[test]
fn a_request_with_extensions_gets_no_reply() {
    let address = responder("127.0.0.0/8");
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    for (length, number) in [(49, 1), (200, 2), (48, 3)] {
        let mut request = vec![0x23; length];
        request[47] = number;
        socket.send_to(&request, address).unwrap();
    }
    let mut reply = [0; 2048];
    socket.recv(&mut reply).unwrap();
    assert_eq!(reply[31], 3, "the number of the request that it answers");
}

#[test]
fn a_flood_gets_few_replies_and_none_that_is_longer() {
    let address = responder("127.0.0.0/8");
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    let begun = Instant::now();
    for length in (0..200).cycle().take(2000) {
        let request = vec![0x23; length];
        let _ = socket.send_to(&request, address);
    }
    let mut replies = 0;
    while let Ok(length) = socket.recv(&mut [0; 2048]) {
        assert_eq!(length, fleet_map::pair::LENGTH);
        replies += 1;
    }
    assert!(replies > 0);
    // Sixteen at once, and two a second.
    assert!(replies <= 17 + begun.elapsed().as_millis() / 500, "{replies}");
}
