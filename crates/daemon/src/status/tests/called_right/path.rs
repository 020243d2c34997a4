//! By how much the replies of sources are off.

/// Where in their bounds the replies of the sources are.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Path {
    /// Anywhere in the inner half.
    Noisy,
    /// At one edge, always.
    Edge(i64),
    /// At either edge by turns.
    Alternating,
    /// From one edge to the other and back, in so many replies.
    Ramp(u64),
}

impl Path {
    /// By how much a reply is off, ns.
    pub(super) fn off_ns(self, replies: u64, noise: u64, bound_ns: u64) -> i64 {
        let edge_ns = bound_ns as i64 - 1000;
        match self {
            Self::Noisy => (noise % bound_ns) as i64 - bound_ns as i64 / 2,
            Self::Edge(sign) => sign * edge_ns,
            Self::Alternating if replies.is_multiple_of(2) => edge_ns,
            Self::Alternating => -edge_ns,
            Self::Ramp(length) => {
                let at = (replies % (2 * length)) as i64 - length as i64;
                edge_ns - 2 * edge_ns * at.abs() / length as i64
            }
        }
    }
}
