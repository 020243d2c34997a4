//! What the kernel, systemd, the daemon and the doctor say of one clock, held against what it shows from outside.

use serde_json::Value;

use crate::checks::{self, Check};
use crate::machine::Machine;

use super::RIGHT_S;

/// The daemon polls within this, s: `poll` of the configuration, and a second of a
/// machine that is slow.
const POLL_S: f64 = 9.0;

/// A bound that holds whatever the clock shows says nothing, s.
const TELLING_S: f64 = 0.5;

/// They tell of the same clock at different moments, s.
const AGREE_S: f64 = 0.1;

/// Until the kernel and the daemon count the clock as synchronised, which verifies a step
/// by its next poll; how long that took.
const SYNCHRONISED: &str = "now() { cut -d ' ' -f 1 /proc/uptime; }; start=$(now); \
    for i in $(seq 80); do adjtimex | grep -q 'status:.*UNSYNC' || \
    ! parachron status --format json | tr -d ' \\n' | \
    grep -q '\"clock\":{\"state\":\"synchronised\"' || break; usleep 200000; done; \
    echo $start $(now)";

/// Of programs that end well, a line each.
const VIEWS: &str = "adjtimex | awk '/maxerror/{print $2}'; adjtimex | grep status:; \
    timedatectl show -p NTPSynchronized --value; \
    parachron status --format json | tr -d '\\n'; echo; \
    parachron doctor --format json | tr -d '\\n'";

/// Once it was corrected: it is right by all of them, and within what each states.
pub(super) fn agree(when: &str, machine: &mut Machine) -> Result<Check, String> {
    let waited = machine.execute(SYNCHRONISED)?;
    let times: Vec<f64> = waited.split(' ').filter_map(|it| it.parse().ok()).collect();
    let took_s = if let [from, to] = times[..] { to - from } else { f64::INFINITY };
    let (ahead_s, known_s) = machine.ahead_s()?;
    let views = machine.execute(VIEWS)?;
    let lines: Vec<&str> = views.lines().collect();
    let [maxerror_us, status, synchronised, daemon, doctor] = lines[..] else {
        return Err(format!("the views of the clock are {views:?}"));
    };
    let daemon: Value = serde_json::from_str(daemon).map_err(|why| format!("{why}: {daemon}"))?;
    let daemon = &daemon["clock"];
    let is_steered = !checks::findings(doctor)?.iter().any(|one| one["rule"] == "clock-steered");
    let bounds_s = [
        ("maxerror", maxerror_us.parse::<f64>().ok().map(|us| us / 1e6)),
        ("status", daemon["kernel"]["max_error_ns"].as_f64().map(|ns| ns / 1e9)),
    ];
    let stated = |it: &Option<f64>| it.map_or("none".to_owned(), |s| format!("{s:.6} s"));
    let told: Vec<String> =
        bounds_s.iter().map(|(name, it)| format!("{name} {}", stated(it))).collect();
    let all: Vec<f64> = bounds_s.iter().filter_map(|(_, it)| *it).collect();
    let holds = |bound_s: &f64| ahead_s.abs() - known_s <= *bound_s && *bound_s < TELLING_S;
    let most_s = all.iter().copied().fold(0.0, f64::max);
    let passed = ahead_s.abs() <= known_s + RIGHT_S
        && took_s <= POLL_S
        && all.len() == bounds_s.len()
        && all.iter().all(|it| holds(it) && most_s - it <= AGREE_S)
        && synchronised == "yes"
        && daemon["state"] == "synchronised"
        && daemon["kernel"]["synchronised"] == true
        && !status.contains("UNSYNC")
        && is_steered;
    Ok(Check::new(
        format!("service: {when}: kernel, timedatectl, programs and doctor know it within a poll"),
        format!(
            "{ahead_s:.3} ± {known_s:.3} s ahead; synchronised after {took_s:.1} s; {}; {}; \
             timedatectl {synchronised}; status {}; the doctor {}",
            told.join(", "),
            status.trim(),
            daemon["state"],
            if is_steered { "finds it steered" } else { "finds it unsteered" },
        )
        .trim_end(),
        passed,
    ))
}
