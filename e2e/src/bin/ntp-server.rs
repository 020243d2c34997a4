//! The NTP server of the tests as a program: this machine's time of day, on a
//! free port of loopback, until its standard input ends. Who started it need
//! not end it: with them goes the pipe.

use std::io;

use e2e::ntp_server::{Behaviour, NtpServer};

fn main() -> io::Result<()> {
    let server = NtpServer::start(Behaviour::default());
    println!("{}", server.name());
    io::copy(&mut io::stdin().lock(), &mut io::sink())?;
    println!("{} requests", server.stop());
    Ok(())
}
