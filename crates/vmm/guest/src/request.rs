//! The host's requests, as words.

use crate::contention::Contest;
use crate::hardware::Misbehaviour;
use crate::lock::Waiting;
use crate::network::{Flow, Wait};
use crate::protocol::Words;
use crate::source::Source;

/// One request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GuestRequest {
    /// The clocks found at the start: the reply is [`Discovery`](crate::discovery::Discovery).
    Discover,
    /// RDMSR.
    ReadMsr {
        /// Which.
        msr: u32,
    },
    /// WRMSR.
    WriteMsr {
        /// Which.
        msr: u32,
        /// What to write.
        value: u64,
    },
    /// CPUID.
    Cpuid {
        /// EAX.
        function: u32,
        /// ECX.
        index: u32,
    },
    /// A clock, with the TSC before and after: the reply is TSC, ns, TSC. For
    /// the RTC it comes when its second changes.
    Read(Source),
    /// The cost of the bare TSC and of a clock, interleaved: one record a round
    /// with both, in cycles.
    Cost {
        /// Which clock.
        source: Source,
        /// Reads a round.
        reads: u64,
        /// Rounds.
        rounds: u64,
    },
    /// Reads a clock and publishes its time, on all vCPUs at once.
    Monotonic {
        /// Which clock.
        source: Source,
        /// Reads of this vCPU.
        reads: u64,
        /// vCPUs that take part.
        participants: u64,
        /// Whether a reading returns at least the latest published time.
        guarded: bool,
    },
    /// Counts ticks of a periodic timer, halted between them: the reply is TSC before,
    /// TSC after the last, ticks, and the longest span without one, cycles.
    Ticks {
        /// The period, ns.
        period_ns: u64,
        /// For so many TSC cycles.
        cycles: u64,
    },
    /// Contends for a lock with other vCPUs: the reply is
    /// [`ContentionCount`](crate::contention::ContentionCount), after a record of each bucket of
    /// hand-overs' spans: its number, and how many.
    Contend(Contest),
    /// Pings the network's peer: the reply is [`PacketCount`](crate::network::PacketCount), after
    /// records of the times that the pings took, in cycles, six each.
    Ping(Flow),
    /// Whether GUEST_STOPPED was set; clears it.
    TakeGuestStopped,
    /// Writes a byte to a port.
    PortWrite {
        /// Where.
        port: u16,
        /// What.
        value: u8,
    },
    /// Writes to a device's memory.
    MmioWrite {
        /// Where.
        address: u64,
        /// What.
        value: u64,
    },
    /// Fails in the given way.
    Misbehave(Misbehaviour),
}

impl GuestRequest {
    /// As a message's code and words.
    pub fn encode(&self) -> (u64, Words) {
        match *self {
            Self::Discover => (1, [0; 6]),
            Self::ReadMsr { msr } => (2, [msr.into(), 0, 0, 0, 0, 0]),
            Self::WriteMsr { msr, value } => (3, [msr.into(), value, 0, 0, 0, 0]),
            Self::Cpuid { function, index } => (4, [function.into(), index.into(), 0, 0, 0, 0]),
            Self::Read(source) => (5, [source.number(), 0, 0, 0, 0, 0]),
            Self::Cost { source, reads, rounds } => (6, [source.number(), reads, rounds, 0, 0, 0]),
            Self::Monotonic { source, reads, participants, guarded } => {
                (7, [source.number(), reads, participants, guarded.into(), 0, 0])
            }
            Self::TakeGuestStopped => (9, [0; 6]),
            Self::PortWrite { port, value } => (10, [port.into(), value.into(), 0, 0, 0, 0]),
            Self::MmioWrite { address, value } => (11, [address, value, 0, 0, 0, 0]),
            Self::Misbehave(how) => (13, [how.number(), 0, 0, 0, 0, 0]),
            Self::Ticks { period_ns, cycles } => (14, [period_ns, cycles, 0, 0, 0, 0]),
            Self::Contend(Contest { way, spins, hold, rest, length, participants }) => {
                (15, [way.number(), spins.into(), hold, rest, length, participants])
            }
            Self::Ping(Flow { wait, event_index, pings, in_flight, batch }) => {
                (16, [wait.number(), event_index.into(), pings, in_flight, batch, 0])
            }
        }
    }

    /// From a message's code and words; `None` where they are not a request.
    pub fn decode(code: u64, words: &Words) -> Option<Self> {
        let [first, second, third, fourth, fifth, sixth] = *words;
        Some(match code {
            1 => Self::Discover,
            2 => Self::ReadMsr { msr: first.try_into().ok()? },
            3 => Self::WriteMsr { msr: first.try_into().ok()?, value: second },
            4 => Self::Cpuid { function: first.try_into().ok()?, index: second.try_into().ok()? },
            5 => Self::Read(Source::from_number(first)?),
            6 => Self::Cost { source: Source::from_number(first)?, reads: second, rounds: third },
            7 => Self::Monotonic {
                source: Source::from_number(first)?,
                reads: second,
                participants: third,
                guarded: fourth != 0,
            },
            9 => Self::TakeGuestStopped,
            10 => Self::PortWrite { port: first.try_into().ok()?, value: second.try_into().ok()? },
            11 => Self::MmioWrite { address: first, value: second },
            13 => Self::Misbehave(Misbehaviour::from_number(first)?),
            14 => Self::Ticks { period_ns: first, cycles: second },
            15 => Self::Contend(Contest {
                way: Waiting::from_number(first)?,
                spins: second.try_into().ok()?,
                hold: third,
                rest: fourth,
                length: fifth,
                participants: sixth,
            }),
            16 => Self::Ping(Flow {
                wait: Wait::from_number(first)?,
                event_index: second != 0,
                pings: third,
                in_flight: fourth,
                batch: fifth,
            }),
            _ => return None,
        })
    }
}

numbered! {
    /// The outcome of a request.
    pub enum RequestOutcome {
        /// Done; the words are the result.
        Done,
        /// The CPU raised #GP.
        Refused,
        /// This guest has no such clock.
        NoSuchClock,
        /// The clock's page could not be read, or is disabled.
        Unreadable,
        /// The counter may have wrapped unseen: the vCPU did not run for too long.
        WentRound,
        /// The request was invalid.
        NotUnderstood,
        /// There is no such device, or it refuses its driver.
        NoDevice,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_request_comes_back_from_its_words() {
        let source = Source::Hpet;
        for request in [
            GuestRequest::Discover,
            GuestRequest::ReadMsr { msr: 0x4b56_4d01 },
            GuestRequest::WriteMsr { msr: u32::MAX, value: u64::MAX },
            GuestRequest::Cpuid { function: 0x4000_0000, index: 1 },
            GuestRequest::Read(source),
            GuestRequest::Cost { source, reads: 1, rounds: 2 },
            GuestRequest::Monotonic { source, reads: 1, participants: 2, guarded: true },
            GuestRequest::Ticks { period_ns: 7, cycles: 5 },
            GuestRequest::Contend(Contest {
                way: Waiting::Paravirtual,
                spins: 1,
                hold: 2,
                rest: 3,
                length: 4,
                participants: 5,
            }),
            GuestRequest::Ping(Flow {
                wait: Wait::Hypercall,
                event_index: true,
                pings: 3,
                in_flight: 2,
                batch: 1,
            }),
            GuestRequest::TakeGuestStopped,
            GuestRequest::PortWrite { port: 0x70, value: 4 },
            GuestRequest::MmioWrite { address: 1 << 40, value: 2 },
            GuestRequest::Misbehave(Misbehaviour::FloodRing),
        ] {
            let (code, words) = request.encode();
            assert_eq!(GuestRequest::decode(code, &words), Some(request));
        }
        assert_eq!(GuestRequest::decode(0, &[0; 6]), None);
        assert_eq!(GuestRequest::decode(5, &[99, 0, 0, 0, 0, 0]), None);
        assert_eq!(GuestRequest::decode(2, &[1 << 32, 0, 0, 0, 0, 0]), None);
    }

    #[test]
    fn every_outcome_comes_back_from_its_number() {
        for outcome in RequestOutcome::ALL {
            assert_eq!(RequestOutcome::from_number(outcome.number()), Some(outcome));
        }
        assert_eq!(RequestOutcome::from_number(99), None);
    }
}
