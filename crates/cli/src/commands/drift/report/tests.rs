use super::*;

impl DriftReport {
    /// Of pairs alone.
    pub(in crate::commands::drift) fn of_pairs(
        pairs: &[inspect::comparison::ClockPairSeries],
    ) -> Self {
        let budget = Budget::default();
        Self {
            version: "0.0.0".into(),
            duration_s: 100.0,
            references: Vec::new(),
            pairs: pairs.iter().filter_map(|pair| pair.judged(budget)).collect(),
            not_measured: Vec::new(),
            budget,
            tsc_frequency: None,
            not_held: Vec::new(),
            notes: Vec::new(),
            disturbed: Vec::new(),
        }
    }
}
