//! Frames as bytes and as values.

use pvclock::units::Malformed;

/// Length of a frame.
pub const FRAME_BYTES: usize = 56;

/// The first bytes of a frame.
pub const MAGIC: [u8; 4] = *b"PCHT";

const VERSION: u8 = 1;
const NOTICE: u8 = 1;
const REQUEST: u8 = 2;
const ANSWER: u8 = 3;
const UNKNOWN_TAI: i16 = i16::MIN;

/// A frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum HostTimeFrame {
    /// The host: ask me for the time.
    Notice(Reason),
    /// The guest: what is the time?
    Request {
        /// Random, and new for each request.
        nonce: u64,
        /// The guest's clock, ns since 1970.
        sent_ns: u64,
    },
    /// The host: this.
    Answer(TimeAnswer),
}

/// Why the host speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// It does so now and then.
    Periodic,
    /// The machine was paused.
    Resumed,
    /// The machine was restored from a snapshot.
    Restored,
    /// The machine came from another host.
    Migrated,
    /// The machine was started.
    ColdBoot,
}

/// What a host's clock counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FrameScale {
    /// UTC.
    Utc,
    /// TAI: 37 s ahead of UTC since 2017.
    Tai,
}

/// The leap second at the end of the UTC day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FrameLeap {
    /// None.
    None,
    /// 23:59:60.
    Inserted,
    /// No 23:59:59.
    Deleted,
}

/// What a host states about its clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostClock {
    /// It may be off by this, ns; `None` where the host does not know.
    pub bound_ns: Option<u64>,
    /// What it counts.
    pub scale: FrameScale,
    /// The leap second that is due.
    pub leap: FrameLeap,
    /// It spreads leap seconds over hours.
    pub is_smeared: bool,
    /// TAI − UTC, s.
    pub tai_offset_s: Option<i16>,
}

/// A host's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct TimeAnswer {
    /// Why the host spoke.
    pub reason: Reason,
    /// The request's nonce.
    pub nonce: u64,
    /// The request's time.
    pub request_sent_ns: u64,
    /// The host's clock when it received the request, ns since 1970.
    pub received_ns: u64,
    /// The host's clock when it sent this.
    pub sent_ns: u64,
    /// The host's clock.
    pub clock: HostClock,
}

impl TimeAnswer {
    /// The host's answer to a request, whose nonce and time it repeats.
    pub fn new(
        (nonce, request_sent_ns): (u64, u64),
        reason: Reason,
        (received_ns, sent_ns): (u64, u64),
        clock: HostClock,
    ) -> Self {
        Self { reason, nonce, request_sent_ns, received_ns, sent_ns, clock }
    }
}

impl HostTimeFrame {
    /// Its bytes.
    pub fn encode(&self) -> [u8; FRAME_BYTES] {
        let mut bytes = [0; FRAME_BYTES];
        let mut put = |at: usize, part: &[u8]| bytes[at..at + part.len()].copy_from_slice(part);
        put(0, &MAGIC);
        match *self {
            Self::Notice(reason) => put(4, &[VERSION, NOTICE, reason as u8]),
            Self::Request { nonce, sent_ns } => {
                put(4, &[VERSION, REQUEST]);
                put(16, &nonce.to_be_bytes());
                put(24, &sent_ns.to_be_bytes());
            }
            Self::Answer(answer) => {
                let clock = answer.clock;
                let states = [clock.scale as u8, clock.leap as u8, u8::from(clock.is_smeared)];
                put(4, &[VERSION, ANSWER, answer.reason as u8]);
                put(7, &states);
                put(10, &clock.tai_offset_s.unwrap_or(UNKNOWN_TAI).to_be_bytes());
                put(16, &answer.nonce.to_be_bytes());
                put(24, &answer.request_sent_ns.to_be_bytes());
                put(32, &answer.received_ns.to_be_bytes());
                put(40, &answer.sent_ns.to_be_bytes());
                put(48, &clock.bound_ns.unwrap_or(u64::MAX).to_be_bytes());
            }
        }
        bytes
    }

    /// The frame of these bytes.
    ///
    /// # Errors
    /// The first field that is wrong.
    pub fn parse(bytes: &[u8; FRAME_BYTES]) -> Result<Self, Malformed> {
        let at = |at: usize, length: usize| {
            bytes[at..at + length].iter().fold(0, |value, byte| value << 8 | u64::from(*byte))
        };
        let wrong = |field, found| Err(malformed(field, found));
        if bytes[..4] != MAGIC {
            return wrong("magic number", at(0, 4));
        }
        if bytes[4] != VERSION {
            return wrong("version", at(4, 1));
        }
        let frame = match bytes[5] {
            NOTICE => Self::Notice(reason(bytes[6])?),
            REQUEST => Self::Request { nonce: at(16, 8), sent_ns: at(24, 8) },
            ANSWER => {
                let tai_s = i16::from_be_bytes([bytes[10], bytes[11]]);
                Self::Answer(TimeAnswer {
                    reason: reason(bytes[6])?,
                    nonce: at(16, 8),
                    request_sent_ns: at(24, 8),
                    received_ns: at(32, 8),
                    sent_ns: at(40, 8),
                    clock: HostClock {
                        bound_ns: Some(at(48, 8)).filter(|bound_ns| *bound_ns != u64::MAX),
                        scale: match bytes[7] {
                            0 => FrameScale::Utc,
                            1 => FrameScale::Tai,
                            found => return wrong("time scale", found.into()),
                        },
                        leap: match bytes[8] {
                            0 => FrameLeap::None,
                            1 => FrameLeap::Inserted,
                            2 => FrameLeap::Deleted,
                            found => return wrong("leap second", found.into()),
                        },
                        is_smeared: match bytes[9] {
                            0 => false,
                            1 => true,
                            found => return wrong("smear", found.into()),
                        },
                        tai_offset_s: Some(tai_s).filter(|offset_s| *offset_s != UNKNOWN_TAI),
                    },
                })
            }
            found => return wrong("kind", found.into()),
        };
        // What a later version puts there would be misread.
        if frame.encode() != *bytes {
            return wrong("unused part", 1);
        }
        Ok(frame)
    }
}

fn malformed(field: &'static str, found: u64) -> Malformed {
    Malformed::new("a frame", field, found)
}

fn reason(found: u8) -> Result<Reason, Malformed> {
    match found {
        0 => Ok(Reason::Periodic),
        1 => Ok(Reason::Resumed),
        2 => Ok(Reason::Restored),
        3 => Ok(Reason::Migrated),
        4 => Ok(Reason::ColdBoot),
        found => Err(malformed("reason", found.into())),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn reason() -> impl Strategy<Value = Reason> {
        (0u8..5).prop_map(|number| super::reason(number).unwrap())
    }

    fn frame() -> impl Strategy<Value = HostTimeFrame> {
        let tai = any::<Option<i16>>().prop_map(|tai| tai.filter(|tai| *tai != UNKNOWN_TAI));
        let bound = any::<Option<u64>>().prop_map(|bound| bound.filter(|ns| *ns != u64::MAX));
        let leap =
            prop::sample::select(&[FrameLeap::None, FrameLeap::Inserted, FrameLeap::Deleted][..]);
        let clock = (bound, any::<bool>(), leap, any::<bool>(), tai).prop_map(
            |(bound_ns, is_tai, leap, is_smeared, tai_offset_s)| {
                let scale = if is_tai { FrameScale::Tai } else { FrameScale::Utc };
                HostClock { bound_ns, scale, leap, is_smeared, tai_offset_s }
            },
        );
        let times = any::<[u64; 4]>();
        let answer = (reason(), times, clock).prop_map(|(reason, [nonce, sent, t2, t3], clock)| {
            HostTimeFrame::Answer(TimeAnswer::new((nonce, sent), reason, (t2, t3), clock))
        });
        let request = any::<[u64; 2]>();
        let request =
            request.prop_map(|[nonce, sent_ns]| HostTimeFrame::Request { nonce, sent_ns });
        prop_oneof![reason().prop_map(HostTimeFrame::Notice), request, answer]
    }

    proptest! {
        #[test]
        fn what_is_sent_is_received(frame in frame()) {
            prop_assert_eq!(HostTimeFrame::parse(&frame.encode()), Ok(frame));
        }

        #[test]
        fn a_frame_has_one_form(frame in frame(), at in 0..FRAME_BYTES, bit in 0..8u8) {
            let mut bytes = frame.encode();
            bytes[at] ^= 1 << bit;
            prop_assert_ne!(HostTimeFrame::parse(&bytes), Ok(frame));
        }
    }

    #[test]
    fn each_field_has_its_place() {
        let clock = HostClock {
            bound_ns: Some(0x0102),
            scale: FrameScale::Tai,
            leap: FrameLeap::Deleted,
            is_smeared: true,
            tai_offset_s: Some(37),
        };
        let bytes = HostTimeFrame::Answer(TimeAnswer::new((1, 2), Reason::Migrated, (3, 4), clock))
            .encode();
        assert_eq!(bytes[..16], *b"PCHT\x01\x03\x03\x01\x02\x01\x00\x25\0\0\0\0");
        for (at, last) in [(16, 1), (24, 2), (32, 3), (40, 4), (48, 2)] {
            assert_eq!(bytes[at + 7], last, "at {at}");
        }
        assert_eq!(bytes[54], 1);
        assert_eq!(HostTimeFrame::Notice(Reason::ColdBoot).encode()[..7], *b"PCHT\x01\x01\x04");
    }

    #[test]
    fn what_is_wrong_is_named() {
        let right = HostTimeFrame::Notice(Reason::Resumed).encode();
        for (at, byte, field) in [
            (0, b'X', "magic number"),
            (4, 2, "version"),
            (5, 4, "kind"),
            (6, 5, "reason"),
            (13, 1, "unused part"),
            (55, 1, "unused part"),
        ] {
            let mut bytes = right;
            bytes[at] = byte;
            assert_eq!(HostTimeFrame::parse(&bytes).unwrap_err().field, field);
        }
    }
}
