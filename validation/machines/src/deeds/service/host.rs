//! What a host says to its guest over a virtio-serial port
//! (docs/protocols/host-socket.md), written anew from that page; and the service in a machine
//! whose host answers there: alone, and beside chronyd, which follows a server.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::thread::{self, sleep};
use std::time::Duration;

use crate::checks::{Check, Checks, is_within};
use crate::deeds::Place;
use crate::deeds::server::Server;
use crate::deeds::ticks::now_ns;
use crate::machine::Machine;
use crate::outcome::Result;
use crate::wire::connect;

use super::beside::{self, follows};
use super::right::{corrected, right_once, steps_s};
use super::stops::{ALONE_S, BESIDE_S, each, printed, stops};
use super::{INSTALL, RESTART, RIGHT_S, configure};

/// What the service is told: the port, and steps at any time.
const BY_THE_PORT: &str = "host-port = \"/dev/virtio-ports/org.parachron.time\"\n\
    min-interval = \"1s\"\nburst = 100\n";

/// Why it speaks.
#[derive(Debug, Clone, Copy)]
pub(in crate::deeds) enum Reason {
    Periodic = 0,
    Resumed = 1,
}

const FRAME: usize = 56;
const NOTICE: u8 = 1;
const REQUEST: u8 = 2;
const ANSWER: u8 = 3;

/// It knows its clock to a millisecond.
const BOUND_NS: u64 = 1_000_000;

/// A host, which answers until the guest's QEMU ends.
#[derive(Debug)]
pub(in crate::deeds) struct Host {
    stream: UnixStream,
    clock: Arc<HostClock>,
}

/// This system's clock, as far ahead, and with a second inserted then.
#[derive(Debug)]
struct HostClock {
    ahead_ns: AtomicI64,
    leap_at_ns: AtomicI64,
    is_silent: AtomicBool,
}

impl Default for HostClock {
    fn default() -> Self {
        let is_silent = false.into();
        Self { ahead_ns: 0.into(), leap_at_ns: i64::MAX.into(), is_silent }
    }
}

impl HostClock {
    fn now_ns(&self) -> i64 {
        let now_ns = now_ns() + self.ahead_ns.load(Ordering::Relaxed);
        let is_over = now_ns >= self.leap_at_ns.load(Ordering::Relaxed);
        now_ns - if is_over { 1_000_000_000 } else { 0 }
    }
}

impl Host {
    /// At the other end of the guest's port.
    pub(in crate::deeds) fn connect(socket: &Path) -> Result<Self, String> {
        let stream = connect(socket)?;
        let clock = Arc::new(HostClock::default());
        let (guest, its) = (stream.try_clone().map_err(|why| why.to_string())?, clock.clone());
        // Ends with the connection, which ends with QEMU.
        thread::spawn(move || answer(guest, &its));
        Ok(Self { stream, clock })
    }

    /// Has it ask.
    pub(in crate::deeds) fn notice(&mut self, reason: Reason) -> Result<(), String> {
        let sent = self.stream.write_all(&head(NOTICE, reason as u8));
        sent.map_err(|why| format!("the host's port: {why}"))
    }

    /// Whether it leaves requests unanswered.
    pub(in crate::deeds) fn keep_silent(&self, is_silent: bool) {
        self.clock.is_silent.store(is_silent, Ordering::Relaxed);
    }

    /// Lives at another time, in which a second is inserted.
    pub(super) fn live_at(&self, ahead_ns: i64, leap_at_ns: i64) {
        self.clock.ahead_ns.store(ahead_ns, Ordering::Relaxed);
        self.clock.leap_at_ns.store(leap_at_ns, Ordering::Relaxed);
    }

    /// Its clock minus this system's, s.
    pub(super) fn ahead_s(&self) -> f64 {
        (self.clock.now_ns() - now_ns()) as f64 / 1e9
    }
}

fn head(kind: u8, reason: u8) -> [u8; FRAME] {
    let mut frame = [0; FRAME];
    frame[..7].copy_from_slice(&[b'P', b'C', b'H', b'T', 1, kind, reason]);
    frame
}

fn answer(mut guest: UnixStream, clock: &HostClock) {
    let mut request = [0; FRAME];
    while guest.read_exact(&mut request).is_ok() {
        let received_ns = clock.now_ns();
        if request[5] != REQUEST || clock.is_silent.load(Ordering::Relaxed) {
            continue;
        }
        let mut frame = head(ANSWER, 0);
        // TAI's offset is not known.
        frame[10] = 0x80;
        frame[16..32].copy_from_slice(&request[16..32]);
        frame[32..40].copy_from_slice(&received_ns.to_be_bytes());
        frame[48..].copy_from_slice(&BOUND_NS.to_be_bytes());
        frame[40..48].copy_from_slice(&clock.now_ns().to_be_bytes());
        if guest.write_all(&frame).is_err() {
            return;
        }
    }
}

/// The clock is right soon after a line that starts the service, by the host's word.
fn started(
    when: &str,
    machine: &mut Machine,
    host: &mut Host,
    line: &str,
) -> Result<Check, String> {
    right_once(when, machine, |machine| {
        machine.execute(&format!("{line}; sleep 1"))?;
        host.notice(Reason::Periodic)
    })
}

pub(crate) fn by_the_port(place: &Place<'_>, machine: &mut Machine, checks: &mut Checks) -> Result {
    machine.execute("systemctl stop chrony")?;
    machine.execute(INSTALL)?;
    machine.execute("udevadm trigger --settle -s virtio-ports")?;
    configure(machine, BY_THE_PORT)?;
    let mut host = Host::connect(&place.folder.join("host"))?;
    let start = "systemctl enable parachrond; systemctl restart parachrond";
    checks.push(started("by the host's word, at the start", machine, &mut host, start)?);
    cold_boot(machine, &mut host, checks)?;
    let mut output = printed(place, machine, "/dev/virtio-ports/output")?;
    let took = stops(machine, &mut output, false, || host.notice(Reason::Resumed))?;
    checks.push(each("the host's word, alone", &took, ALONE_S));
    checks.push(super::found_by_the_doctor(place, machine)?);
    leap(machine, &mut host, checks)?;
    let server = Server::start(&place.workshop.programs.join("ntp-server"))?;
    machine.execute("systemctl stop parachrond")?;
    checks.push(follows(machine, &server)?);
    machine.execute("systemctl start parachrond; sleep 2")?;
    let before_ppm = beside::frequency_ppm(machine)?;
    let took = stops(machine, &mut output, false, || host.notice(Reason::Resumed))?;
    checks.push(each("the host's word, beside chronyd", &took, BESIDE_S));
    checks.push(beside::frequency_kept(machine, before_ppm)?);
    Ok(())
}

/// 1980-01-06 00:00:00 UTC, s since 1970: where GPS' weeks begin, and with them a clock
/// that knows no date.
const STARTED_S: f64 = 315_964_800.0;

/// It runs on from there until it is given its date, s.
const RUNS_S: f64 = 60.0;

/// Nobody replies (RFC 5737). Of three voices two have to agree, but for a clock without
/// a date.
const SILENT: &str = "ntp = [\"192.0.2.1\", \"198.51.100.1\"]\n";

/// The machine has an RTC, which would agree with the host.
const WITHOUT_RTC: &str = "no-source = [\"rtc\"]\n";

/// Started in 1980 without an RTC: the host's first word is its date, though two servers are named,
/// and neither is there.
fn cold_boot(machine: &mut Machine, host: &mut Host, checks: &mut Checks) -> Result {
    configure(machine, &format!("{SILENT}{BY_THE_PORT}{WITHOUT_RTC}"))?;
    machine.execute("systemctl stop parachrond")?;
    steps_s(machine)?;
    machine.execute(&format!(
        "date -u -s @{STARTED_S} >/dev/null && systemctl start parachrond; sleep 1"
    ))?;
    host.notice(Reason::Periodic)?;
    let away_s = now_ns() as f64 / 1e9 - STARTED_S;
    let when = "started in 1980 without an RTC, two servers silent, by the host's first word";
    checks.push(corrected(when, machine, away_s - RUNS_S..=away_s + RUNS_S)?);
    configure(machine, BY_THE_PORT)?;
    checks.push(started("by the host's word, started again", machine, host, RESTART)?);
    Ok(())
}

/// 2027-01-01 00:00:00 UTC, ns since 1970.
const MIDNIGHT_NS: i64 = 1_798_761_600_000_000_000;

/// How long before it the machine's clock is set, ns.
const BEFORE_NS: i64 = 60_000_000_000;

/// The host speaks each second until so long after it.
const SECONDS: i32 = 70;

/// A leap second, which the kernel inserts and the host counts: nothing steps against it.
fn leap(machine: &mut Machine, host: &mut Host, checks: &mut Checks) -> Result {
    host.live_at(MIDNIGHT_NS - BEFORE_NS - now_ns(), MIDNIGHT_NS);
    // Before a step of ours, by which the kernel would lose it (ntp_clear, kernel/time/ntp.c,
    // leaves TIME_INS without a second for it), and the host announces none.
    steps_s(machine)?;
    machine.execute(
        "systemctl stop parachrond; date -u -s '2026-12-31 23:58:50' >/dev/null && \
        guest-clock leap insert; sleep 2; systemctl start parachrond; sleep 1",
    )?;
    host.notice(Reason::Periodic)?;
    machine.execute("sleep 4")?;
    let stepped_s: f64 = steps_s(machine)?.iter().sum();
    for _ in 0..SECONDS {
        host.notice(Reason::Periodic)?;
        sleep(Duration::from_secs(1));
    }
    let (ahead_s, bound_s) = machine.ahead_s()?;
    let off_s = ahead_s - host.ahead_s();
    let line = "journalctl -u parachrond -o cat --since '2026-12-31 23:59:30' | \
        grep -vE 'slew|synchronised'; true";
    let said = machine.execute(line)?;
    checks.push(Check::new(
        "service: a leap second that is due, a step of ours, then it: right after it, and no \
         step against it",
        format!(
            "stepped by {stepped_s:.3} s before it; {off_s:.3} ± {bound_s:.3} s ahead after it; \
             {said}"
        ),
        (5.0..15.0).contains(&stepped_s)
            && is_within(RIGHT_S, (off_s, bound_s))
            && !said.contains("step: "),
    ));
    // Back to this system's time.
    host.live_at(0, i64::MAX);
    let back = format!(
        "systemctl stop parachrond; guest-clock leap none; date -u -s @{} >/dev/null; hwclock -w -u; \
        systemctl start parachrond",
        now_ns() / 1_000_000_000,
    );
    checks.push(started("back in the present", machine, host, &back)?);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_answered_with_its_nonce_and_the_time() {
        let (ours, mut guest) = UnixStream::pair().unwrap();
        let clock = HostClock { ahead_ns: 7_000_000_000.into(), ..HostClock::default() };
        thread::spawn(move || answer(ours, &clock));
        let mut request = head(REQUEST, 0);
        request[16..32].copy_from_slice(&[9; 16]);
        guest.write_all(&request).unwrap();
        let mut frame = [0; FRAME];
        guest.read_exact(&mut frame).unwrap();
        assert_eq!(frame[..12], *b"PCHT\x01\x03\0\0\0\0\x80\0");
        assert_eq!(frame[16..32], [9; 16]);
        let sent_ns = i64::from_be_bytes(frame[40..48].try_into().unwrap());
        assert!((sent_ns - now_ns() - 7_000_000_000).abs() < 5_000_000_000);
    }
}
