//! The digest of each scenario under its disciplines, and the limits that each sets.

use crate::fleets::{built_in, fleet};
use simulator::scenario::BUILT_IN;
use simulator::{Promise, ScenarioCorrector};

/// A seed of today means the same fleet tomorrow, in any build and on any machine. A digest of
/// `none` changes only with the random streams; the keeper's may also change with its code.
#[test]
fn each_discipline_of_a_scenario_has_its_digest_and_holds_the_limits() {
    let mut digests = String::new();
    for (name, _) in BUILT_IN {
        let scenario = built_in(name);
        for corrector in &scenario.disciplines {
            let fleet = fleet(&scenario, *corrector, 5);
            digests += &format!("{name} {} {:016x}\n", corrector.name(), fleet.digest());
            assert_eq!(fleet.broken().next(), None, "{name} {corrector:?}");
        }
    }
    assert_eq!(digests, include_str!("digests.txt"));
}

/// Both limits are set, but where no recovery is promised: a rate that stays wrong, and a date
/// that somebody sets.
#[test]
fn each_scenario_limits_the_error_and_the_recovery() {
    for (name, _) in BUILT_IN {
        let limits = built_in(name).limits;
        assert!(limits.error_s.is_some(), "{name}");
        let is_promised = !["cloud-a-to-b", "every-fault"].contains(&name);
        assert_eq!(limits.recovery_s.is_some(), is_promised, "{name}");
    }
}

/// A limit is the keeper's.
#[test]
fn a_recovery_that_takes_too_long_is_found_under_the_keeper() {
    let mut scenario = built_in("migration-night");
    scenario.limits.recovery_s = Some(1e-3);
    for (corrector, broken) in [(ScenarioCorrector::Keeper, 5), (ScenarioCorrector::None, 0)] {
        let fleet = fleet(&scenario, corrector, 5);
        let promises: Vec<Promise> =
            fleet.broken().filter_map(|it| it.violation).map(|it| it.promise).collect();
        assert_eq!(promises, vec![Promise::Recovery; broken], "{corrector:?}");
    }
}
