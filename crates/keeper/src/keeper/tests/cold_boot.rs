use super::*;

const FORTY_YEARS: i64 = 40 * YEAR_MS * MS;
const SILENT: (SourceKind, Option<(i64, u64)>) = (SourceKind::Ntp, None);

/// What the host's word does to a machine that has started, with two servers
/// that cannot be reached yet.
fn by_the_host(is_unset: bool, offset_ns: i64) -> Vec<Action> {
    let mut bench = Bench::new(Policy::default(), &[HOST, SILENT, SILENT]);
    bench.keeper.is_unset = is_unset;
    assert_eq!(bench.sample(&[]), []);
    bench.push(0, offset_ns, 1_000_000);
    bench.run()
}

#[test]
fn a_machine_without_a_date_takes_the_hosts_first_word() {
    assert_eq!(step_of(&by_the_host(true, FORTY_YEARS)).by_ns, FORTY_YEARS);
    // A date is never before the one that cannot be.
    assert!(matches!(by_the_host(true, -FORTY_YEARS)[..], [Action::Refuse(..)]));
}

#[test]
fn a_machine_with_a_date_does_not() {
    for offset_ns in [FORTY_YEARS, 60_000 * MS] {
        let done = by_the_host(false, offset_ns);
        let [Action::Refuse(_, Refusal::TooFewAgree { needed: 2, configured: 3 })] = done[..]
        else {
            panic!("{done:?}");
        };
    }
}

#[test]
fn only_the_first_word_is_a_date_and_no_server_s_is() {
    let mut bench = Bench::new(Policy::default(), &[HOST, SILENT, SILENT]);
    bench.keeper.is_unset = true;
    bench.sample(&[]);
    bench.push(0, FORTY_YEARS, 1_000_000);
    step_of(&bench.run());
    bench.now_ns += S;
    bench.push(0, 60_000 * MS, 1_000_000);
    assert!(matches!(bench.run()[..], [Action::Refuse(_, Refusal::TooFewAgree { .. })]));

    let server = (SourceKind::Ntp, Some((FORTY_YEARS, 1_000_000)));
    let mut bench = Bench::new(Policy::default(), &[server, SILENT, SILENT]);
    bench.keeper.is_unset = true;
    assert!(matches!(bench.sample(&[])[..], [Action::Refuse(..)]));
}
