//! How the nodes of a fleet compare their clocks: a responder and a prober in NTP's format,
//! and what gathers their samples from JSON lines and exporters for [`crate::errormap`].
//!
//! ```
//! use fleet_map::pair::{Networks, Responder, NodeClock, Prober};
//! use std::time::Duration;
//!
//! // A node whose clock is 5 ms ahead answers loopback, and nobody else.
//! let ahead = NodeClock { shift_ns: 5_000_000 };
//! let responder = Responder::bind("127.0.0.1:0".parse()?, "127.0.0.0/8".parse::<Networks>()?, ahead)?;
//! let address = responder.address()?;
//! std::thread::spawn(move || responder.run());
//!
//! let times = Prober::default().probe(address, Duration::from_secs(2), NodeClock::default())?;
//! let sample = times.named("a", "b").sample()?;
//! assert!(sample.min_ns <= 5_000_000 && 5_000_000 <= sample.max_ns, "{sample:?}");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A second request at once learns when the kernel let the first reply go, where the peer does
//! interleaved mode (RFC 9769), as this responder and chronyd do.
//!
//! The responder answers networks that are named, each address twice a second on the average
//! in bounded memory, and a reply is never longer than its request. It says that it is not
//! synchronised, so that no NTP client takes it for a server.

mod exposition;
mod limiter;
mod lines;
mod metrics;
mod networks;
mod packet;
mod peers;
mod probe;
mod responder;
pub mod scrape;
mod socket;

pub use limiter::Limiter;
pub use lines::{LONGEST_LINE, SampleTally, read};
pub use metrics::{Counts, add_federated, add_page, textfile};
pub use networks::Networks;
pub use packet::{LENGTH, PeerReply, ReplyContent, reply};
pub use peers::{ListedPeer, choose, parse};
pub use probe::{ProbeError, ProbeTimes, Prober};
pub use responder::{Responder, ResponderCounts};
pub use socket::NodeClock;
