//! `parachron drift`: known truth in, measured value out.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use e2e::ntp_server::{Behaviour, NtpServer};
use e2e::{Case, Need, Program, Said};
use serde_json::Value;

pub(crate) const CASES: &[Case] = &[
    Case { name: "drift_finds_fifty_ppm", needs: &[], run: drift_finds_fifty_ppm },
    Case { name: "drift_finds_a_step_and_cuts_it_out", needs: &[], run: drift_finds_a_step },
    Case { name: "drift_tells_what_is_wrong", needs: &[], run: drift_tells_what_is_wrong },
    Case { name: "drift_obeys_a_kiss_of_death", needs: &[], run: drift_obeys_a_kiss },
    Case { name: "drift_outvotes_a_falseticker", needs: &[], run: drift_outvotes_a_falseticker },
    Case { name: "drift_killed_leaves_its_records", needs: &[], run: drift_killed },
    Case { name: "drift_goes_on_where_it_was_killed", needs: &[], run: drift_goes_on },
    Case { name: "drift_by_a_stopwatch", needs: &[], run: drift_by_a_stopwatch },
    Case { name: "drift_draws", needs: &[], run: drift_draws },
    Case {
        name: "drift_against_a_real_chronyd",
        needs: &[Need::Root, Need::Tool("chronyd"), Need::Tool("chronyc")],
        run: drift_against_chronyd,
    },
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
        loss_one_of: 100,
        ..Behaviour::default()
    };
    let server = NtpServer::start(behaviour);
    // A lost answer is waited for, for a second: 20 of the 60.
    let timing = ["--duration", "60s", "--interval", "20ms", "--format", "json", "--max-ppm", "10"];
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

fn drift_outvotes_a_falseticker(program: &Program) {
    let wrong = || Behaviour { offset_s: 30.0, ..Behaviour::default() };
    let names = |servers: &[NtpServer]| servers.iter().map(NtpServer::name).collect::<Vec<_>>();
    let measure = |names: &[String]| {
        let mut arguments = vec!["drift", "--clock", "realtime", "--duration", "1s"];
        arguments.extend(["--interval", "50ms", "--max-offset", "1s", "--format", "json"]);
        arguments.extend(names.iter().flat_map(|name| ["--ntp", name]));
        let said = program.run(&arguments);
        (said.code, report(&said))
    };
    let three = [Behaviour::default(), wrong(), Behaviour::default()].map(NtpServer::start);
    let (code, told) = measure(&names(&three));
    let agrees: Vec<_> = (0..3).map(|index| told["references"][index]["agrees"].clone()).collect();
    assert_eq!(agrees, [true, false, true], "{told:#}");
    assert!(told["notes"].to_string().contains("a falseticker"), "{told:#}");
    // The clock is right, by those who are.
    assert_eq!(code, Some(0), "{told:#}");
    let (code, told) = measure(&names(&three[..2]));
    assert!(told["notes"].to_string().contains("contradict each other"), "{told:#}");
    assert_eq!(code, Some(1), "{told:#}");
}

/// Starts a measurement that would take an hour, waits for some records, and
/// kills it as a crash would.
fn kill_after_some(program: &Program, server: &NtpServer, records: &Path) -> usize {
    let (name, file) = (server.name(), records.to_str().expect("UTF-8"));
    let mut child = program
        .command(&["drift", "--ntp", &name, "--clock", "monotonic", "--duration", "1h"])
        .args(["--interval", "20ms", "--records", file])
        .stdout(Stdio::null())
        .spawn()
        .expect("the program starts");
    while fs::read_to_string(records).unwrap_or_default().lines().count() < 30 {
        assert!(child.try_wait().expect("our own child").is_none(), "it ended by itself");
        sleep(Duration::from_millis(20));
    }
    child.kill().expect("our own child");
    child.wait().expect("our own child");
    fs::read_to_string(records).expect("the records").lines().count()
}

fn drift_killed(program: &Program) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (name, above) in [("run.csv", 2), ("run.jsonl", 1)] {
        let records = folder.path().join(name);
        let server = NtpServer::start(Behaviour::default());
        let lines = kill_after_some(program, &server, &records);
        let answered = usize::try_from(server.stop()).expect("a count");
        let text = fs::read_to_string(&records).expect("the records");
        assert!(text.ends_with('\n'), "a whole last line");
        // All but the one under way when it was killed.
        assert!((lines - above).abs_diff(answered) <= 1, "{lines} lines, {answered} answers");
    }
}

fn drift_goes_on(program: &Program) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let records = folder.path().join("run.csv");
    let file = records.to_str().expect("UTF-8");
    let server = NtpServer::start(Behaviour::default());
    let name = server.name();
    let before = kill_after_some(program, &server, &records) - 2;
    // As a full disk would leave it.
    let mut text = fs::read_to_string(&records).expect("the records");
    text.push_str("half a li");
    fs::write(&records, &text).expect("our own file");
    let resume = ["drift", "--ntp", &name, "--clock", "monotonic", "--duration", "500ms"];
    let resume = [&resume[..], &["--interval", "20ms", "--resume", file, "--format", "json"]];
    let said = program.run(&resume.concat());
    assert_eq!(said.code, Some(0), "{}", said.err);
    let told = report(&said);
    let readings = told["pairs"][0]["drift"]["readings"].as_u64().expect("a count") as usize;
    assert!(readings > before + 10, "{readings} of which {before} before");
    assert_eq!(fs::read_to_string(&records).expect("the records").lines().count(), readings + 2);
    assert!(told["notes"].to_string().contains("9 bytes left out"), "{told:#}");
    // Of another version, it is refused and kept.
    fs::write(&records, "# parachron drift 99\n").expect("our own file");
    let said = program.run(&["drift", "--resume", file]);
    assert_eq!(said.code, Some(2), "{}", said.out);
    assert!(said.err.contains("of another version"), "{}", said.err);
    assert_eq!(fs::read_to_string(&records).expect("the file"), "# parachron drift 99\n");
}

fn drift_by_a_stopwatch(program: &Program) {
    let mut child = program
        .command(&["drift", "--stopwatch", "--clock", "monotonic", "--format", "json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut answers = child.stdin.take().expect("a pipe");
    let mut questions = BufReader::new(child.stderr.take().expect("a pipe"));
    let mut question = String::new();
    for (asked, answer) in [("Start", "\n"), ("Stop", "\n"), ("What does it show", "0:02.5\n")] {
        question.clear();
        questions.read_line(&mut question).expect("a question");
        assert!(question.starts_with(asked), "{question}");
        if asked == "Stop" {
            sleep(Duration::from_secs(2));
        }
        answers.write_all(answer.as_bytes()).expect("the program listens");
    }
    let output = child.wait_with_output().expect("our own child");
    let told = report(&output.into());
    // At least 2 s of a stopwatch's 2.5 s: the interval must hold that.
    let frequency = &told["pairs"][0]["drift"]["frequency"];
    let low = frequency["interval_ppm"][0].as_f64().expect("an interval");
    let high = frequency["interval_ppm"][1].as_f64().expect("an interval");
    assert!(low < -200_000.0 + 1.0 && high > low, "{frequency}");
    let said = program.run(&["drift", "--stopwatch"]);
    assert_eq!(said.code, Some(2));
    assert!(said.err.contains("standard input has ended"), "{}", said.err);
}

fn drift_draws(program: &Program) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("drift.svg");
    let file = path.to_str().expect("UTF-8");
    let said = program.run(&["drift", "--duration", "500ms", "--interval", "20ms", "--plot", file]);
    assert_eq!((said.code, said.err.as_str()), (Some(0), ""));
    let svg = fs::read_to_string(&path).expect("a picture");
    assert!(svg.starts_with("<svg") && svg.contains("Allan deviation"), "{svg}");
}

/// chronyd of our own: a server on loopback that never touches the clock
/// (`-x`), told to serve this machine's time.
struct Chronyd {
    child: Child,
    ntp: String,
    command: String,
    _folder: tempfile::TempDir,
}

impl Chronyd {
    fn start() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let [ntp, command] = [free_port(), free_port()];
        let pid = folder.path().join("chronyd.pid");
        let configuration = format!(
            "port {ntp}\nbindaddress 127.0.0.1\nallow 127.0.0.1\nlocal stratum 5\n\
             cmdport {command}\nbindcmdaddress 127.0.0.1\nbindcmdaddress /\npidfile {}\n",
            pid.display()
        );
        let path = folder.path().join("chrony.conf");
        fs::write(&path, configuration).expect("our own folder");
        let child = Command::new("chronyd")
            .args(["-x", "-d", "-u", "root", "-f"])
            .arg(&path)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("chronyd starts");
        let (ntp, command) = (format!("127.0.0.1:{ntp}"), format!("127.0.0.1:{command}"));
        Self { child, ntp, command, _folder: folder }
    }
}

impl Drop for Chronyd {
    fn drop(&mut self) {
        // Ours, and of no use to anybody else.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A port that was free a moment ago.
fn free_port() -> u16 {
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("a port of loopback");
    socket.local_addr().expect("our own address").port()
}

fn drift_against_chronyd(program: &Program) {
    let chronyd = Chronyd::start();
    let chrony = format!("--chrony={}", chronyd.command);
    let arguments = ["drift", "--ntp", &chronyd.ntp, &chrony, "--clock", "realtime"];
    let timing = ["--duration", "5s", "--interval", "100ms", "--format", "json"];
    let said = program.run(&[&arguments[..], &timing].concat());
    assert_eq!((said.code, said.err.as_str()), (Some(0), ""));
    let told = report(&said);
    let pairs = told["pairs"].as_array().expect("pairs");
    assert_eq!(pairs.len(), 2, "{told:#}");
    for pair in pairs {
        // It serves this very clock: no drift, and no offset but the way's.
        let drift = &pair["drift"];
        let ns = drift["offset"]["ns"].as_f64().expect("an offset");
        let bound = drift["offset"]["bound_ns"].as_f64().expect("a bound");
        assert!(ns.abs() <= bound + 1e5, "{pair:#}");
        let interval = &drift["frequency"]["interval_ppm"];
        let low = interval[0].as_f64().expect("an interval");
        let high = interval[1].as_f64().expect("an interval");
        assert!(low <= 20.0 && high >= -20.0, "{pair:#}");
    }
    assert_eq!(told["references"][0]["stratum"], 5, "{told:#}");
    assert_eq!(told["references"][1]["chrony"]["stratum"], 5, "{told:#}");
    assert_eq!(told["references"][0]["agrees"], true, "{told:#}");
}
