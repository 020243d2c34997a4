//! How late programs run: timers, wake-ups, exits, pipes and a peer, each with its
//! percentiles, and what became of the CPUs meanwhile.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::distribution::Distribution;
use crate::measurements::NotMeasured;

/// What was measured of lateness in one run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Latency {
    /// Length of the run, s.
    pub over_s: f64,
    /// Each figure, in the order measured.
    pub figures: Vec<Figure>,
    /// What became of the CPUs during the run.
    pub cpus: CpuShares,
    /// What the peer answered, where one was named.
    pub answers: Option<EchoReplies>,
    /// CPU time this measurement used, s.
    pub used_cpu_s: f64,
    /// What could not be measured.
    pub not_measured: Vec<NotMeasured>,
}

/// What became of the CPUs during a run, as parts of all their time, 0 to 1. A kernel that does
/// not count one of them leaves it out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CpuShares {
    /// Stolen by the host, by `/proc/stat`, in steps of 10 ms.
    pub stolen: Option<f64>,
    /// Idle, by `/proc/stat`. A CPU that idles sleeps, and has to wake first.
    pub idle: Option<f64>,
    /// How long a quota of this process's control groups kept it from running, by `cpu.stat`, ns.
    pub throttled_ns: Option<u64>,
}

impl Latency {
    /// The figure of this kind.
    pub fn figure(&self, kind: FigureKind) -> Option<&Figure> {
        self.figures.iter().find(|figure| figure.kind == kind)
    }

    /// Adds a figure, or why there is none.
    pub fn add_figure(&mut self, kind: FigureKind, samples: &Distribution) {
        match Landmarks::from_samples(samples) {
            Some(ns) => self.figures.push(Figure { kind, ns, histogram: samples.bins(1.0) }),
            None => self.miss(kind.name(), "no sample came in time"),
        }
    }

    /// Notes that `what` could not be measured, and why.
    pub fn miss(&mut self, what: impl Into<String>, why: impl Into<String>) {
        self.not_measured.push(NotMeasured { what: what.into(), why: why.into() });
    }
}

/// What a figure is of.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum FigureKind {
    /// From the time asked for to the return of an absolute `clock_nanosleep`,
    /// with a timer slack of 1 ns.
    TimerWakeUp,
    /// The same while a loop of least priority keeps that CPU from idling.
    TimerWakeUpAwake,
    /// The same with the timer slack that this program inherited.
    TimerWakeUpInheritedSlack,
    /// From a write to an eventfd to the reader's return on another CPU.
    CrossCpuWakeUp,
    /// An expedited membarrier while another thread runs on another CPU: an
    /// interrupt sent, served and confirmed.
    Ipi,
    /// CPUID: in a virtual machine an exit to the host and back.
    Exit,
    /// A token there and back through two pipes, both processes on one CPU.
    PipeOneCpu,
    /// The same, each process on a CPU of its own.
    PipeAcrossCpus,
    /// A message to the peer and its answer.
    Echo,
}

impl FigureKind {
    /// Its name for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::TimerWakeUp => "timer wake-up",
            Self::TimerWakeUpAwake => "timer wake-up, CPU kept awake",
            Self::TimerWakeUpInheritedSlack => "timer wake-up, inherited slack",
            Self::CrossCpuWakeUp => "wake-up across CPUs",
            Self::Ipi => "IPI (membarrier)",
            Self::Exit => "exit (CPUID)",
            Self::PipeOneCpu => "pipe round trip, one CPU",
            Self::PipeAcrossCpus => "pipe round trip, two CPUs",
            Self::Echo => "echo from the peer",
        }
    }
}

/// One figure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Figure {
    /// What it is of.
    pub kind: FigureKind,
    /// Its landmarks, ns.
    pub ns: Landmarks,
    /// Histogram of the samples: (lower edge, ns; samples), empty bins left
    /// out. A bin reaches 2.2 % (a 32nd of a doubling) above its lower edge.
    pub histogram: Vec<(f64, u64)>,
}

/// A distribution's landmarks, to its tail.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Landmarks {
    /// Smallest: the floor.
    pub min: f64,
    /// Half are at most this.
    pub p50: f64,
    /// 9 of 10 are at most this.
    pub p90: f64,
    /// 99 of 100 are at most this.
    pub p99: f64,
    /// 999 of 1000 are at most this.
    pub p99_9: f64,
    /// Largest.
    pub max: f64,
    /// Mean.
    pub mean: f64,
    /// Samples.
    pub samples: u64,
}

impl Landmarks {
    /// Of these samples; nothing of none.
    pub fn from_samples(samples: &Distribution) -> Option<Self> {
        let spread = samples.spread()?;
        Some(Self {
            min: spread.min,
            p50: spread.median,
            p90: samples.quantile(0.9)?,
            p99: spread.p99,
            p99_9: samples.quantile(0.999)?,
            max: spread.max,
            mean: samples.mean(),
            samples: samples.samples(),
        })
    }
}

// Messages that a peer sends back, and which answer is whose.
//
// Each request carries a number that nobody else knows (ours for the run, plus
// the request's), so that an answer that comes late counts as late, and one
// that is nobody's as foreign.

/// How the peer is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Protocol {
    /// ICMP echo, by a datagram socket.
    Icmp,
    /// UDP echo (RFC 862), or whatever sends back what it gets.
    Udp,
    /// An NTP server's answer (RFC 5905).
    Ntp,
}

/// What became of the requests.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EchoReplies {
    /// The peer, as it was named.
    pub peer: String,
    /// Requests sent.
    pub sent: u64,
    /// Answered in time.
    pub answered: u64,
    /// Answered after the next request had been sent, or twice.
    pub late: u64,
    /// Answers to nothing that was asked.
    pub foreign: u64,
}

/// ICMP's header (RFC 792, RFC 4443).
const ICMP_HEADER: usize = 8;
/// Echo request and reply, IPv4.
const ICMP: [u8; 2] = [8, 0];
/// Echo request and reply, IPv6.
const ICMP6: [u8; 2] = [128, 129];
/// NTP's header, without extension fields.
const NTP_LENGTH: usize = 48;

/// The request of this number; `secret` is the run's.
pub fn request(protocol: Protocol, ipv6: bool, secret: u64, number: u64) -> Vec<u8> {
    let token = secret.wrapping_add(number).to_be_bytes();
    match protocol {
        Protocol::Udp => token.to_vec(),
        Protocol::Icmp => {
            let [kind, _] = if ipv6 { ICMP6 } else { ICMP };
            // The kernel fills in checksum and identifier (net/ipv4/ping.c).
            let [high, low] = (number as u16).to_be_bytes();
            [&[kind, 0, 0, 0, 0, 0, high, low][..], &token].concat()
        }
        Protocol::Ntp => {
            let mut packet = vec![0; NTP_LENGTH];
            // Version 4, mode 3 (client); the server returns the transmit
            // timestamp as the origin's (RFC 5905, section 7.3).
            packet[0] = 4 << 3 | 3;
            packet[40..].copy_from_slice(&token);
            packet
        }
    }
}

/// Which request this answers; `None` where it answers none.
pub fn answered(protocol: Protocol, ipv6: bool, secret: u64, answer: &[u8]) -> Option<u64> {
    let token = match protocol {
        Protocol::Udp => answer,
        Protocol::Icmp => {
            let [_, kind] = if ipv6 { ICMP6 } else { ICMP };
            answer.strip_prefix(&[kind]).and_then(|rest| rest.get(ICMP_HEADER - 1..))?
        }
        Protocol::Ntp => {
            let mode = answer.first()? & 7;
            answer.get(24..32).filter(|_| mode == 4 && answer.len() >= NTP_LENGTH)?
        }
    };
    Some(u64::from_be_bytes(token.try_into().ok()?).wrapping_sub(secret))
}

impl EchoReplies {
    /// Counts an answer while request `number` (from 0) waits for its own;
    /// whether this is it.
    pub fn count(&mut self, number: u64, answers: Option<u64>) -> bool {
        match answers {
            Some(answered) if answered == number => {
                self.answered += 1;
                return true;
            }
            Some(earlier) if earlier < number => self.late += 1,
            _ => self.foreign += 1,
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_figure_without_samples_says_so() {
        let mut found = Latency::default();
        found.add_figure(FigureKind::Ipi, &Distribution::new());
        assert!(found.figures.is_empty());
        assert_eq!(found.not_measured[0].what, "IPI (membarrier)");
        let mut samples = Distribution::new();
        (1..=1000).for_each(|us| samples.record(f64::from(us) * 1e3));
        found.add_figure(FigureKind::PipeOneCpu, &samples);
        let ns = found.figures[0].ns;
        assert_eq!((ns.min, ns.max, ns.samples), (1e3, 1e6, 1000));
        assert!((ns.p99_9 / 999e3 - 1.0).abs() < 0.002, "{ns:?}");
        assert!((ns.mean / 500.5e3 - 1.0).abs() < 0.002, "{ns:?}");
    }

    const SECRET: u64 = u64::MAX - 3;

    /// What an honest peer sends back.
    fn answer(protocol: Protocol, ipv6: bool, request: &[u8]) -> Vec<u8> {
        let mut answer = request.to_vec();
        match protocol {
            Protocol::Udp => {}
            Protocol::Icmp => answer[0] = if ipv6 { 129 } else { 0 },
            Protocol::Ntp => {
                answer[0] = 4 << 3 | 4;
                answer.copy_within(40..48, 24);
            }
        }
        answer
    }

    #[test]
    fn an_answer_is_its_requests_and_no_other() {
        for protocol in [Protocol::Udp, Protocol::Icmp, Protocol::Ntp] {
            for ipv6 in [false, true] {
                for number in [0, 1, 70_000] {
                    let request = request(protocol, ipv6, SECRET, number);
                    let answer = answer(protocol, ipv6, &request);
                    let read = |secret| answered(protocol, ipv6, secret, &answer);
                    assert_eq!(read(SECRET), Some(number), "{protocol:?}");
                    assert_ne!(read(1), Some(number));
                    // Our own request, reflected by ICMP or NTP, is no answer.
                    let reflected = answered(protocol, ipv6, SECRET, &request);
                    assert_eq!(reflected.is_some(), protocol == Protocol::Udp);
                }
            }
        }
    }

    #[test]
    fn late_and_foreign_answers_are_counted_and_not_timed() {
        let mut answers = EchoReplies::default();
        let timed = [Some(6), Some(9), None, Some(7)].map(|answer| answers.count(7, answer));
        assert_eq!(timed, [false, false, false, true]);
        assert_eq!((answers.answered, answers.late, answers.foreign), (1, 1, 2));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read(answer in prop::collection::vec(any::<u8>(), 0..80), ipv6: bool) {
            for protocol in [Protocol::Udp, Protocol::Icmp, Protocol::Ntp] {
                let _ = answered(protocol, ipv6, SECRET, &answer);
            }
        }
    }
}
