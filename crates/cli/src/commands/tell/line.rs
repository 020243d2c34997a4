//! The result of sending one guest the time: a line, and an object of `--format json`.

use std::time::Duration;

use instruments::figures::{signed, time};
use schemars::JsonSchema;
use serde::Serialize;
use sources::tell::{Address, TellFailure, TellOutcome};

use crate::output::message_line;
use crate::output::number_of;

/// The result of sending a guest the time.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct TellLine {
    /// When it began, ns since 1970 by this host.
    at_unix_ns: Option<u64>,
    /// The guest, as it was named.
    guest: String,
    /// How long it took, s.
    took_s: f64,
    /// Null where the guest did not get it.
    told: Option<GuestClockResult>,
    /// Why it did not.
    why: Option<String>,
    /// What to try then.
    remedy: Option<String>,
    #[serde(skip)]
    fate: Fate,
}

/// Whether it has to be sent again, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Told,
    /// Nobody was there.
    Unreachable,
    /// Somebody was.
    NotTold,
}

/// What was seen of its clock.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
struct GuestClockResult {
    /// The guest's clock minus the host's before, ns.
    offset_ns: i64,
    /// The bound of that offset's error, ns; without the host's own error.
    bound_ns: u64,
    /// The same afterwards, where the guest was asked again.
    after_offset_ns: Option<i64>,
    /// Its bound, ns.
    after_bound_ns: Option<u64>,
    /// Replies that the guest got; with an agent, how often it was set.
    answers: u32,
}

impl TellLine {
    pub(crate) fn new(
        at_unix_ns: Option<u64>,
        guest: &Address,
        told: &Result<TellOutcome, TellFailure>,
        took: Duration,
    ) -> Self {
        Self {
            at_unix_ns,
            guest: guest.to_string(),
            took_s: took.as_secs_f64(),
            told: told.as_ref().ok().map(|told| GuestClockResult {
                offset_ns: told.before.offset_ns,
                bound_ns: told.before.bound_ns,
                after_offset_ns: told.after.map(|after| after.offset_ns),
                after_bound_ns: told.after.map(|after| after.bound_ns),
                answers: told.answers,
            }),
            why: told.as_ref().err().map(ToString::to_string),
            remedy: told.as_ref().err().map(|why| remedy(guest, why).to_owned()),
            fate: match told {
                Ok(_) => Fate::Told,
                Err(TellFailure::Unreachable(_)) => Fate::Unreachable,
                Err(_) => Fate::NotTold,
            },
        }
    }

    pub(crate) fn fate(&self) -> Fate {
        self.fate
    }

    /// As people read it, with its line end.
    pub(crate) fn text(&self) -> String {
        let message = match &self.told {
            Some(told) => told.words(),
            None => {
                let why = self.why.as_deref().unwrap_or_default();
                vec![
                    "not set".to_owned(),
                    why.to_owned(),
                    format!("try: {}", self.remedy.as_deref().unwrap_or_default()),
                ]
            }
        };
        message_line(self.at_unix_ns, &self.guest, &message) + "\n"
    }
}

impl GuestClockResult {
    fn words(&self) -> Vec<String> {
        let off = |offset_ns: i64, bound_ns: u64| {
            format!("{} ± {}", signed(offset_ns as f64, time), time(bound_ns as f64))
        };
        let before = off(self.offset_ns, self.bound_ns);
        let answers = number_of(self.answers.into(), "answer");
        vec![match self.after_offset_ns.zip(self.after_bound_ns) {
            Some((offset_ns, bound_ns)) => {
                format!("set; its clock was {before}, and is {}", off(offset_ns, bound_ns))
            }
            None if self.answers == 0 => {
                format!("left alone, as it may be right: its clock is {before}")
            }
            None => format!("time sent in {answers}; its clock was {before}"),
        }]
    }
}

/// What to do about it.
fn remedy(guest: &Address, why: &TellFailure) -> &'static str {
    match (guest, why) {
        (Address::Agent(_), TellFailure::Unreachable(_)) => {
            "run `ls -l` on the socket: it must be the agent's channel socket, and you need write \
             permission"
        }
        (Address::Agent(_), TellFailure::Refused(_)) => {
            "allow guest-get-time and guest-set-time in the guest's qemu-ga.conf, and \
             install hwclock there (util-linux-extra)"
        }
        (Address::Agent(_), _) => {
            "run `systemctl status qemu-guest-agent` in the guest; if another client such as \
             libvirt holds the socket, use `virsh domtime --sync`"
        }
        (Address::Vsock { .. }, TellFailure::Unreachable(_)) => {
            "check the guest's CID; in the guest, set `host-vsock` in parachrond.toml, then run \
             `systemctl restart parachrond`"
        }
        (Address::Unix { .. }, TellFailure::Unreachable(_)) => {
            "run `ls -l` on the VMM's vsock socket: you need write permission; in the guest, set \
             `host-vsock` in parachrond.toml, then run `systemctl restart parachrond`"
        }
        (Address::Port(_), TellFailure::Unreachable(_)) => {
            "run `ls -l` on the socket: it must be the socket of the port's chardev, and you need \
             write permission"
        }
        (Address::Port(_), _) => {
            "in the guest, set `host-port` in parachrond.toml, then run `systemctl restart \
             parachrond`"
        }
        (Address::Vsock { .. } | Address::Unix { .. }, _) => {
            "in the guest, set `host-vsock` in parachrond.toml, then run `systemctl restart \
             parachrond`"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str, told: Result<TellOutcome, TellFailure>) -> String {
        let guest: Address = text.parse().unwrap();
        TellLine::new(Some(1_795_242_707_509_631_641), &guest, &told, Duration::ZERO).text()
    }

    #[test]
    fn a_line_says_why_a_guest_was_not_told_and_what_to_try() {
        let what = "request from the guest";
        let silent = TellFailure::Silent { what, limit: Duration::from_secs(2) };
        assert_eq!(
            line("port:/run/a.sock", Err(silent)),
            "06:31:47.509  port:/run/a.sock: not set\n\
             \x20               no request from the guest within 2.0 s\n\
             \x20               try: in the guest, set `host-port` in parachrond.toml, then run\n\
             \x20               `systemctl restart parachrond`\n"
        );
        let silent = TellFailure::Silent { what: "reply", limit: Duration::from_secs(2) };
        let of_agent = line("agent:/run/a.sock", Err(silent));
        assert!(of_agent.contains("qemu-guest-agent"), "{of_agent}");
        let hostile = line("agent:/run/\u{1b}q", Err(TellFailure::Refused("\u{1b}[2J".into())));
        assert!(!hostile.contains('\u{1b}'), "{hostile}");
    }
}
