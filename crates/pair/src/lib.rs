#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod departures;
mod limiter;
mod lines;
mod metrics;
mod networks;
mod packet;
mod peers;
mod probe;
mod responder;
mod scrape;
mod socket;

pub use limiter::Limiter;
pub use lines::{LONGEST_LINE, Tally, read};
pub use metrics::{Counts, exposition, take};
pub use networks::Networks;
pub use packet::{LENGTH, Reply, reply};
pub use peers::{Peer, choose, parse};
pub use probe::{ProbeError, Prober, Times};
pub use responder::{Answers, Responder};
pub use scrape::{MOST_BYTES, get};
pub use socket::Clock;
