//! The NTP server of the tests as a program: this machine's time of day, on a
//! free port of loopback, until its standard input ends. Who started it need
//! not end it: with them goes the pipe. A number in a line there steps its
//! clock by so many seconds.
//!
//! `ntp-server [:PORT] [leap=TIME] [PPM [ONE_OF SECONDS]]`: a second is inserted before
//! that time of its clock, s since 1970; its clock is fast by so much, and one answer of so many is
//! wrong by so many seconds.

use std::io::{self, BufRead as _};

use ntp_server::{Behaviour, NtpServer};

#[path = "../../../../crates/cli/tests/cli/ntp_server.rs"]
mod ntp_server;

fn main() -> io::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let behaviour = behaviour(&words).ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::InvalidInput,
            "usage: ntp-server [:PORT] [leap=TIME] [PPM [ONE_OF SECONDS]]",
        )
    })?;
    let server = NtpServer::start(behaviour);
    println!("{}", server.name());
    for line in io::stdin().lock().lines() {
        let by_s = line?.trim().parse().map_err(io::Error::other)?;
        server.step(by_s);
    }
    println!("{} requests", server.stop());
    Ok(())
}

fn behaviour(words: &[String]) -> Option<Behaviour> {
    let (port, words) = match words.split_first() {
        Some((first, rest)) if first.starts_with(':') => (first[1..].parse().ok()?, rest),
        _ => (0, words),
    };
    let leap = words.first().and_then(|word| word.strip_prefix("leap="));
    let leap_at_s = leap.map(str::parse).transpose().ok()?;
    let words = &words[usize::from(leap.is_some())..];
    let ppm = words.first().map_or(Some(0.0), |word| word.parse().ok())?;
    let wrong_one_of = match words {
        [] | [_] => None,
        [_, one_of, by_s] => {
            Some((one_of.parse().ok().filter(|one_of| *one_of > 0)?, by_s.parse().ok()?))
        }
        _ => return None,
    };
    Some(Behaviour { port, ppm, wrong_one_of, leap_at_s, ..Behaviour::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_a_behaviour_or_wrong() {
        let of =
            |line: &str| behaviour(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(of("").unwrap().ppm, 0.0);
        assert_eq!(of("50").unwrap().ppm, 50.0);
        assert_eq!(of("0 50 0.02").unwrap().wrong_one_of, Some((50, 0.02)));
        let privileged = of(":123 5").unwrap();
        assert_eq!((privileged.port, privileged.ppm), (123, 5.0));
        let leaps = of(":123 leap=1798761600 5").unwrap();
        assert_eq!((leaps.leap_at_s, leaps.ppm), (Some(1_798_761_600), 5.0));
        for wrong in ["leap=", "leap=x", ":", ":x", "x", "0 50", "0 0 1", "0 1 2 3"] {
            assert!(of(wrong).is_none(), "{wrong}");
        }
    }
}
