//! `parachron drift`: known truth in, measured value out.

use std::time::Duration;

use e2e::ntp_server::{Behaviour, NtpServer};
use e2e::{Case, Program, Said};
use serde_json::Value;

pub(crate) const CASES: &[Case] = &[
    Case { name: "drift_finds_fifty_ppm", needs: &[], run: drift_finds_fifty_ppm },
    Case { name: "drift_finds_a_step_and_cuts_it_out", needs: &[], run: drift_finds_a_step },
    Case { name: "drift_tells_what_is_wrong", needs: &[], run: drift_tells_what_is_wrong },
    Case { name: "drift_obeys_a_kiss_of_death", needs: &[], run: drift_obeys_a_kiss },
];

fn measure(program: &Program, server: &NtpServer, more: &[&str]) -> Said {
    let name = server.name();
    let mut arguments = vec!["drift", "--ntp", &name, "--clock", "monotonic"];
    arguments.extend(more);
    program.run(&arguments)
}

fn report(said: &Said) -> Value {
    serde_json::from_str(&said.out).unwrap_or_else(|e| panic!("{e}: {} {}", said.out, said.err))
}

fn ppm(report: &Value) -> f64 {
    report["pairs"][0]["drift"]["frequency"]["ppm"].as_f64().expect("a frequency")
}

/// The bar: a minute, 1 ms of jitter, 50 ppm within 1 ppm.
fn drift_finds_fifty_ppm(program: &Program) {
    let behaviour = Behaviour {
        ppm: 50.0,
        delay: Duration::from_micros(300),
        jitter: Duration::from_millis(1),
        loss_one_of: 10,
        ..Behaviour::default()
    };
    let server = NtpServer::start(behaviour);
    // A lost answer is waited for, for a second: 6 s more of 60.
    let timing = ["--duration", "60s", "--interval", "50ms", "--format", "json", "--max-ppm", "10"];
    let said = measure(program, &server, &timing);
    let report = report(&said);
    // Our clock is as slow as the server is fast.
    assert!((ppm(&report) + 50.0).abs() <= 1.0, "{report:#}");
    // And that is outside the budget.
    assert_eq!((said.code, said.err.as_str()), (Some(1), ""));
    let pair = &report["pairs"][0];
    assert_eq!(pair["frequency_verdict"], "outside");
    assert_eq!(pair["drift"]["steps"], Value::Array(Vec::new()));
    let in_300_s = pair["drift"]["frequency"]["in_300_s"].as_f64().expect("a time");
    assert!((in_300_s + 0.015).abs() < 0.0004, "{in_300_s}");
}

fn drift_finds_a_step(program: &Program) {
    let step = Some((Duration::from_secs(3), 0.5));
    let server = NtpServer::start(Behaviour { step, ..Behaviour::default() });
    let name = server.name();
    let said = program.run(&[
        "drift",
        "--ntp",
        &name,
        "--clock",
        "monotonic",
        "--clock",
        "raw",
        "--duration",
        "8s",
        "--interval",
        "50ms",
        "--format",
        "json",
    ]);
    assert_eq!((said.code, said.err.as_str()), (Some(0), ""));
    let report = report(&said);
    for pair in report["pairs"].as_array().expect("pairs") {
        let steps = pair["drift"]["steps"].as_array().expect("steps");
        let [step] = &steps[..] else { panic!("{report:#}") };
        let (ns, bound) = (step["ns"].as_f64().expect("ns"), step["bound_ns"].as_f64());
        // The server forward is the clock back.
        assert!((ns + 5e8).abs() <= bound.expect("a bound"), "{step}");
        let frequency = pair["drift"]["frequency"]["ppm"].as_f64().expect("a frequency");
        // 0.5 s of 8 s would be 60000 ppm.
        assert!(frequency.abs() < 500.0, "{report:#}");
    }
    let notes = report["notes"].to_string();
    assert!(notes.contains("the reference stepped by +500 ms, not they"), "{notes}");
}

fn drift_tells_what_is_wrong(program: &Program) {
    let short = ["--duration", "300ms", "--interval", "100ms"];
    let told = |behaviour: Behaviour, what: &str| {
        let server = NtpServer::start(behaviour);
        let said = measure(program, &server, &short);
        assert_eq!(said.code, Some(2), "{}", said.out);
        assert!(said.err.contains(what) && said.err.contains("\n  try: "), "{}", said.err);
    };
    told(Behaviour { leap: 3, ..Behaviour::default() }, "says that it is not synchronised");
    told(Behaviour { cut_to: Some(40), ..Behaviour::default() }, "wrong answer");
    told(Behaviour { loss_one_of: 1, ..Behaviour::default() }, "no answer in 1000 ms");
    let server = NtpServer::start(Behaviour::default());
    let name = server.name();
    server.stop();
    let said = program.run(&["drift", "--ntp", &name, "--duration", "300ms"]);
    assert_eq!(said.code, Some(2));
    assert!(said.err.contains("nothing answers on UDP port"), "{}", said.err);
    for (arguments, what) in [
        (["drift", "--ntp", "no-such-host.invalid"], "no address found"),
        (["drift", "--phc", "/dev/null"], "cannot compare with /dev/null"),
        (["drift", "--resume", "/no/such/file.csv"], "cannot read /no/such/file.csv"),
        (["drift", "--records", "file.parquet"], "by its name"),
    ] {
        let said = program.run(&arguments);
        assert_eq!(said.code, Some(2), "{arguments:?}");
        assert!(said.err.contains(what), "{}", said.err);
    }
}

fn drift_obeys_a_kiss(program: &Program) {
    let timing = ["--duration", "2s", "--interval", "50ms", "--format", "json"];
    // Asked to leave: it does so at once, with what it has.
    let kiss = Some((4, *b"DENY"));
    let server = NtpServer::start(Behaviour { kiss, ..Behaviour::default() });
    let said = measure(program, &server, &timing);
    assert_eq!(said.code, Some(0), "{}", said.err);
    let report_ = report(&said);
    assert_eq!(report_["references"][0]["answered"], 3);
    let stopped = report_["references"][0]["stopped"].as_str().expect("a reason");
    assert!(stopped.ends_with("kiss-o'-death DENY"), "{stopped}");
    assert_eq!(server.stop(), 4);
    // Asked to ask less: 2 s at 50 ms would be 40 requests, from the third on
    // each at twice the distance they are 3 + 5.
    let kiss = Some((3, *b"RATE"));
    let server = NtpServer::start(Behaviour { kiss, ..Behaviour::default() });
    let said = measure(program, &server, &timing);
    assert_eq!(said.code, Some(0), "{}", said.err);
    let asked = server.stop();
    assert!(asked <= 9, "{asked} requests");
}
