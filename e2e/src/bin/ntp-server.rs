//! The NTP server of the tests as a program: this machine's time of day, on a
//! free port of loopback, until its standard input ends. Who started it need
//! not end it: with them goes the pipe. A number in a line there steps its
//! clock by so many seconds.
//!
//! `ntp-server [:PORT] [PPM [ONE_OF SECONDS]]`: its clock is fast by so much, and
//! one answer of so many is wrong by so many seconds.

use std::io::{self, BufRead as _};

use e2e::ntp_server::{Behaviour, NtpServer};

fn main() -> io::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let behaviour = behaviour(&words).ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::InvalidInput,
            "usage: ntp-server [:PORT] [PPM [ONE_OF SECONDS]]",
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
    let ppm = words.first().map_or(Some(0.0), |word| word.parse().ok())?;
    let wrong_one_of = match words {
        [] | [_] => None,
        [_, one_of, by_s] => {
            Some((one_of.parse().ok().filter(|one_of| *one_of > 0)?, by_s.parse().ok()?))
        }
        _ => return None,
    };
    Some(Behaviour { port, ppm, wrong_one_of, ..Behaviour::default() })
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
        for wrong in [":", ":x", "x", "0 50", "0 0 1", "0 1 2 3"] {
            assert!(of(wrong).is_none(), "{wrong}");
        }
    }
}
