//! The cost of reading a page: the same code as in a guest. Clocks whose reading
//! is an exit are left out: here they would cost a plain call.

use guest::request::Request;
use guest::source::Source;

use super::guest_code::GuestCode;
use super::time::Real;
use super::vm::InProcessVm;
use crate::bench::{Bench, Provider};
use crate::cost::{BATCH, cost_of, effort, kvm_clock};
use crate::results::Findings;
use crate::run::Found;
use crate::sample::sources;
use crate::settings::{LabError, Progress};

const WITHOUT_EXIT: [Source; 3] = [Source::Tsc, Source::KvmClock, Source::HyperVPage];

pub(super) fn run(bench: &Bench<'_>, progress: &mut dyn Progress) -> Result<Found, LabError> {
    let mut rows = Vec::new();
    for (index, &kind) in bench.settings.providers.iter().enumerate() {
        progress.step(kind.name(), index as f64 / bench.settings.providers.len() as f64);
        let vm = InProcessVm::new(bench.host_settings(kind), Real)?;
        let mut guest = GuestCode::start(&vm);
        for source in sources(bench.settings, &guest.discover()?) {
            let Some(effort) = effort(source).filter(|_| WITHOUT_EXIT.contains(&source)) else {
                continue;
            };
            let mut rounds = Vec::new();
            while (rounds.len() as u64) < effort.rounds {
                guest.request(Request::Cost { source, reads: effort.reads, rounds: BATCH })?;
                let records = guest.records().into_iter();
                rounds.extend(records.map(|[_, bare, cycles, ..]| (bare, cycles)));
            }
            rows.extend(cost_of(Provider::Own(kind), source, effort, &rounds, bench.host_tsc));
        }
    }
    let checks = rows.iter().filter(|row| row.source == Source::KvmClock.name()).map(kvm_clock);
    let checks = checks.collect();
    Ok((Findings::Cost(rows), checks))
}
