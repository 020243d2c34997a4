use simulator::scenario::BUILT_IN;
use simulator::{Corrector, Fleet, Scenario, Simulation};
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let (_, text) = BUILT_IN.iter().find(|(n, _)| *n == args[1]).unwrap();
    let scenario: Scenario = toml::from_str(text).unwrap();
    let days: f64 = args[3].parse().unwrap();
    let guests: u64 = args[2].parse().unwrap();
    let span = scenario.check(guests, days).unwrap();
    let sim = Simulation::new(&scenario, Corrector::Keeper, 1, span);
    if let Some(g) = args.get(4) {
        let g: u64 = g.parse().unwrap();
        let mut fleet = Fleet::new();
        let mut last = 0;
        let mut f = |look: simulator::Look| { let _ = &mut last; println!("{look:?}"); };
        sim.guest(g, &sim.plan(g), &mut fleet, Some(&mut f));
        return;
    }
    let fleet = sim.guests(0..guests, || true);
    let mut e: Vec<i64> = fleet.guests.iter().map(|g| g.last_ns.abs()).collect();
    e.sort();
    println!("median {} p90 {} max {} broken {:?}", e[e.len()/2], e[e.len()*9/10], e[e.len()-1], fleet.broken().count());
    for b in fleet.broken().take(5) { println!("{:?}", b); }
    println!("{:?}", fleet.counts);
}
