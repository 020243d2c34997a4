//! Gaps without a trace, and what the host stole meanwhile from the CPUs that they were on.
//!
//! A kernel without CONFIG_PARAVIRT_TIME_ACCOUNTING (Debian's) counts stolen time as the thread's
//! own, so no counter of the thread shows it. The line of a CPU in `/proc/stat` still does.

use std::collections::BTreeMap;

use super::Delay;
use super::cause::LatenessCause;

/// A unit of `/proc/stat`, ns.
const STEAL_TICK_NS: u64 = 10_000_000;

/// Gaps without a trace of all bursts of a loop, by CPU.
#[derive(Debug, Clone, Default)]
pub struct HiddenGaps {
    cpus: BTreeMap<u32, HiddenTime>,
    /// Whether the kernel leaves stolen time out of a thread's: then its counts name the gaps
    /// that the host caused, and a gap without a trace is not one of them.
    is_steal_counted: bool,
}

/// What one CPU's gaps without a trace add up to, and what the host stole in the same bursts.
#[derive(Debug, Clone, Copy, Default)]
struct HiddenTime {
    hidden_ns: u64,
    stolen_ns: u64,
}

impl HiddenGaps {
    /// Adds all long gaps of one burst on `cpu`, and what was stolen from `cpu` during it, where
    /// that is known.
    pub fn add_burst(&mut self, cpu: u32, gaps: &[Delay], stolen_ns: Option<u64>) {
        let time = self.cpus.entry(cpu).or_default();
        time.stolen_ns = time.stolen_ns.saturating_add(stolen_ns.unwrap_or(0));
        for gap in gaps {
            match gap.cause {
                LatenessCause::Hidden => time.hidden_ns = time.hidden_ns.saturating_add(gap.ns),
                LatenessCause::Stolen => self.is_steal_counted = true,
                _ => {}
            }
        }
    }

    /// Names the host as the cause of a CPU's gaps without a trace, where it stole at least half
    /// of their sum from that CPU.
    ///
    /// In bursts of 2.36 s on one CPU 50.8 % stolen are 1.20 s: gaps of 1.29 s are the host's.
    pub fn attribute_stolen(&self, delays: &mut [Delay]) {
        if self.is_steal_counted {
            return;
        }
        for delay in delays.iter_mut().filter(|delay| delay.cause == LatenessCause::Hidden) {
            let time = self.cpus.get(&delay.cpu).copied().unwrap_or_default();
            if time.stolen_ns >= (time.hidden_ns / 2).max(STEAL_TICK_NS) {
                delay.cause = LatenessCause::Stolen;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::FigureKind;
    use super::*;
    use LatenessCause::{Hidden, RunQueue, Stolen};

    const MS: u64 = 1_000_000;

    fn gap(cpu: u32, ns: u64, cause: LatenessCause) -> Delay {
        Delay { kind: FigureKind::Gap, at_ns: 0, ns, cpu, cause }
    }

    /// The causes of these gaps; of each CPU as much was stolen in its one burst.
    fn attributed(gaps: &[Delay], stolen_ns: &[(u32, u64)]) -> Vec<LatenessCause> {
        let mut hidden = HiddenGaps::default();
        for (cpu, stolen_ns) in stolen_ns {
            let on_cpu: Vec<Delay> = gaps.iter().filter(|gap| gap.cpu == *cpu).copied().collect();
            hidden.add_burst(*cpu, &on_cpu, Some(*stolen_ns));
        }
        let mut gaps = gaps.to_vec();
        hidden.attribute_stolen(&mut gaps);
        gaps.iter().map(|gap| gap.cause).collect()
    }

    /// Seen in a guest of Debian's kernel whose host ran a loop on its CPU.
    #[test]
    fn gaps_without_a_trace_are_the_hosts_where_it_stole_as_much() {
        let causes = |stolen_ns, hidden_ns| {
            attributed(&[gap(0, hidden_ns, Hidden), gap(0, 5 * MS, RunQueue)], &[(0, stolen_ns)])
        };
        // 50.8 % of 2.36 s.
        assert_eq!(causes(1_199 * MS, 1_290 * MS), [Stolen, RunQueue]);
        assert_eq!(causes(236 * MS, 1_290 * MS), [Hidden, RunQueue]);
        assert_eq!(causes(0, 1_290 * MS), [Hidden, RunQueue]);
        // Less than a tick was stolen: nothing is known.
        assert_eq!(causes(9 * MS, 48_600), [Hidden, RunQueue]);
    }

    #[test]
    fn steal_of_one_cpu_explains_no_gap_of_another() {
        let gaps = [gap(0, 40 * MS, Hidden), gap(1, 40 * MS, Hidden)];
        assert_eq!(attributed(&gaps, &[(0, 0), (1, 500 * MS)]), [Hidden, Stolen]);
    }

    #[test]
    fn gaps_that_a_report_leaves_out_count_too() {
        let mut hidden = HiddenGaps::default();
        // 100 gaps of 4 ms, of which the host stole 30 ms in all: they have another cause.
        hidden.add_burst(0, &[gap(0, 4 * MS, Hidden); 100], Some(30 * MS));
        let mut reported = [gap(0, 4 * MS, Hidden); 10];
        hidden.attribute_stolen(&mut reported);
        assert_eq!(reported.map(|gap| gap.cause), [Hidden; 10]);
    }

    #[test]
    fn a_burst_without_steal_in_proc_stat_proves_nothing() {
        let mut gaps = [gap(0, 40 * MS, Hidden)];
        let mut hidden = HiddenGaps::default();
        hidden.add_burst(0, &gaps, None);
        hidden.attribute_stolen(&mut gaps);
        assert_eq!(gaps[0].cause, Hidden);
    }

    #[test]
    fn a_kernel_that_counts_steal_by_thread_leaves_hidden_gaps_hidden() {
        let gaps = [gap(0, 9 * MS, Stolen), gap(1, 9 * MS, Hidden)];
        assert_eq!(attributed(&gaps, &[(0, 500 * MS), (1, 500 * MS)]), [Stolen, Hidden]);
    }
}
