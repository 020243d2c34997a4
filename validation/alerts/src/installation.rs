//! What keeps a machine's clock, and what is scraped on it.

use simulator::ScenarioCorrector;

/// What is installed.
#[derive(Debug)]
pub struct Installation {
    /// In words.
    pub name: &'static str,
    /// What corrects the clock.
    pub on: ScenarioCorrector,
    /// Between two requests to a server, s.
    pub(crate) poll_s: u64,
    /// The daemon serves its metrics: without it no scrape succeeds.
    pub(crate) serves_itself: bool,
}

const fn installation(name: &'static str, on: ScenarioCorrector, poll_s: u64) -> Installation {
    Installation { name, on, poll_s, serves_itself: false }
}

/// All of them. ntpd polls each 64 s at first, and each 1024 s once it is steady
/// (RFC 5905: MINPOLL, and ntpd's default of maxpoll, 10).
pub const INSTALLATIONS: [Installation; 6] = [
    installation("parachrond", ScenarioCorrector::Keeper, 64),
    Installation {
        serves_itself: true,
        ..installation("parachrond, its own metrics", ScenarioCorrector::Keeper, 64)
    },
    installation("chronyd, parachrond beside", ScenarioCorrector::Beside, 64),
    installation("chronyd", ScenarioCorrector::Regression, 64),
    installation("ntpd, polls of 64 s", ScenarioCorrector::Pll, 64),
    installation("ntpd, polls of 1024 s", ScenarioCorrector::Pll, 1024),
];

impl Installation {
    pub(crate) const fn has_daemon(&self) -> bool {
        matches!(self.on, ScenarioCorrector::Keeper | ScenarioCorrector::Beside)
    }

    pub(crate) const fn has_chronyd(&self) -> bool {
        matches!(self.on, ScenarioCorrector::Regression | ScenarioCorrector::Beside)
    }
}
