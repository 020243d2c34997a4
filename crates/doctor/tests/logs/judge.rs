//! Whether a verdict is the truth: cause, sign, size, fault, remedy, and nothing false.

use doctor::finding::Finding;

use super::text;

/// A cause as doctor words it.
pub(crate) struct Wording {
    /// Its name in testdata/verdicts; none where that has no such case.
    pub(crate) name: &'static str,
    /// What the finding's first line contains.
    pub(crate) phrase: &'static str,
    /// The causes in testdata/logs that it states.
    states: &'static [&'static str],
    /// Causes that it leaves open in its explanation.
    leaves_open: &'static [&'static str],
}

const fn wording(
    name: &'static str,
    phrase: &'static str,
    states: &'static [&'static str],
    leaves_open: &'static [&'static str],
) -> Wording {
    Wording { name, phrase, states, leaves_open }
}

/// The one table from doctor's words to the truths' causes.
#[rustfmt::skip]
pub(crate) const WORDINGS: &[Wording] = &[
    wording("backward", "it went backward", &["tsc-jumped", "host-slept"], &["guest-paused"]),
    wording("cpufreq", "its rate follows the CPU's frequency", &["tsc-rate-varies"], &[]),
    wording("", "it stops in deep idle states", &["tsc-halts-in-idle"], &[]),
    wording("damaged", "figures contradict each other", &[], &["not-knowable"]),
    wording("jump", "in one check", &["tsc-jumped"], &["read-delayed", "guest-paused", "reference-wrong"]),
    wording("jumped-ahead", "it jumped ahead", &["tsc-jumped", "guest-paused"], &[]),
    wording("late-agrees", "late, and the two clocks agree", &["check-late"], &[]),
    wording("late-discarded", "the check came seconds late", &["check-late", "reference-wrapped"], &[]),
    wording("not-logged", "the log does not show why", &["not-knowable"], &["guest-paused"]),
    wording("page-leapt", "leapt by", &["reference-jumped"], &[]),
    wording("rate", "its rate is ", &["tsc-rate-wrong", "tsc-rate-or-offset"], &[]),
    wording("rate-unknown", "it differs from its reference", &["not-knowable"], &["reference-wrapped", "reference-stopped", "check-late"]),
    wording("read-late", "a read was late", &["read-delayed"], &[]),
    wording("reference-wrong", "its reference was off by", &["reference-wrong"], &[]),
    wording("silent", "did not answer", &["reference-jumped"], &[]),
    wording("stands", "stood still", &["reference-stopped"], &[]),
    wording("stopped", "it stopped or was set back", &["host-slept", "tsc-jumped"], &["guest-paused", "not-knowable"]),
    wording("ticks", "counted timer ticks", &["reference-lost-ticks"], &[]),
    wording("warp", "its CPUs' counters disagree", &["warp-between-cpus"], &[]),
    wording("wrap", "its reference wrapped", &["reference-wrapped"], &[]),
    wording("", "its CPUs' counters may disagree", &["warp-between-cpus"], &[]),
    wording("", "the comparison overflowed", &["check-late"], &[]),
    wording("", "its frequency is unknown", &["boot-calibration-failed"], &[]),
    wording("", "its reference went backward", &["reference-jumped"], &[]),
    wording("", "check of the clock source was late or skipped", &["read-delayed", "check-late"], &[]),
    wording("", "Guests of this KVM host get no stable kvm-clock", &["host-tsc-unstable"], &[]),
    wording("", "reported stalled CPUs", &["interrupt-late"], &[]),
    wording("", "The firmware set up the TSC wrongly", &["warp-between-cpus"], &[]),
    wording("", "The host's time jumped by", &["host-slept"], &[]),
    wording("one-check", "one check cannot show which", &["tsc-rate-or-offset", "not-knowable"], &["tsc-rate-wrong", "read-delayed", "reference-wrong"]),
    wording("", "the two clocks agree except for a drift", &["clocks-agree"], &[]),
    wording("", "a test of the watchdog provoked it", &["forced-by-test"], &[]),
    wording("", "One calibration of the TSC failed", &["boot-calibration-failed"], &[]),
    wording("", "A timer interrupt took", &["interrupt-late"], &[]),
    wording("", "timer ticks, so its clock ran behind", &["reference-lost-ticks"], &[]),
    wording("", "Xen's time went backward", &["went-backwards"], &[]),
    wording("", "Hyper-V set the clock", &["stepped-by-hypervisor"], &["host-slept"]),
    wording("", "The time daemon found the clock", &["stepped-by-daemon"],
        &["host-slept", "guest-paused", "rtc-wrong", "tsc-rate-wrong", "not-knowable", "forced-by-test"]),
    wording("", "The hardware clock holds local time", &["rtc-wrong"], &["stepped-by-daemon"]),
    wording("", "A program found the clock", &[], &["stepped-by-daemon", "rtc-wrong", "not-knowable"]),
    wording("", "one of the two steps followed a wrong answer", &["stepped-by-daemon"], &["not-knowable"]),
    wording("", "the hardware clock probably holds local time", &["rtc-wrong"], &["stepped-by-daemon"]),
    wording("", "beyond what its time daemon corrects", &["rate-beyond-daemon"], &[]),
    wording("", "Something set the clock back", &["two-daemons", "stepped-by-daemon"], &[]),
    wording("", "The clock jumped forward", &["guest-paused"], &["host-slept", "two-daemons"]),
    wording("", "The time servers contradict", &["daemon-no-majority"], &[]),
    wording("", "is not synchronized yet", &["unsynchronised"], &[]),
    wording("", "so its assumed frequency is wrong", &["tsc-rate-wrong"], &[]),
    wording("", "The time daemon may not set the clock", &["stepped-by-daemon"], &[]),
    wording("", "no line shows that Hyper-V set it", &["guest-paused"], &["host-slept"]),
    wording("", "This machine was paused for", &["guest-paused"], &["host-slept"]),
    wording("", "Something wrote to the TSC while", &["warp-between-cpus"], &["forced-by-test"]),
    wording("", "and its time daemon steps it repeatedly", &["tsc-rate-wrong"], &["rate-beyond-daemon"]),
    wording("", "Something other than the time daemon", &["two-daemons"], &[]),
    wording("", "VirtualBox's guest tools set this guest's clock", &["host-slept"], &["guest-paused"]),
    wording("", "VirtualBox did not run this guest in time", &["host-slept"], &[]),
];

/// The phrase of a name in testdata/verdicts.
pub(crate) fn phrase(name: &str) -> &'static str {
    let named = WORDINGS.iter().find(|wording| !name.is_empty() && wording.name == name);
    named.map_or("?", |wording| wording.phrase)
}

/// What a verdict is compared with; what is `None` is not compared.
#[derive(Debug, Default)]
pub(crate) struct Truth {
    pub(crate) cause: String,
    /// Clock minus reference, or a size without a sign.
    pub(crate) size_ns: Option<f64>,
    pub(crate) sign: i8,
    pub(crate) tolerance_ns: f64,
    /// The TSC's rate, if any is known.
    pub(crate) cs_hz: Option<f64>,
    /// The lines have what the size is computed from.
    pub(crate) is_size_in_lines: bool,
    pub(crate) blame: String,
    pub(crate) remedy: String,
}

/// What is wrong with a verdict, by kind; nothing if it is right.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Faults {
    pub(crate) cause: Option<String>,
    pub(crate) false_cause: Option<String>,
    pub(crate) size: Option<String>,
    pub(crate) blame: Option<String>,
    pub(crate) remedy: Option<String>,
}

impl Faults {
    pub(crate) fn all(&self) -> Vec<String> {
        let Self { cause, false_cause, size, blame, remedy } = self;
        [cause, false_cause, size, blame, remedy].into_iter().flatten().cloned().collect()
    }
}

fn wordings(what: &str) -> impl Iterator<Item = &'static Wording> + '_ {
    WORDINGS.iter().filter(|wording| what.contains(wording.phrase))
}

/// The comparison.
pub(crate) fn judge(truth: &Truth, findings: &[Finding]) -> Faults {
    let cause = truth.cause.as_str();
    let states = |finding: &&Finding| wordings(&finding.what).any(|it| it.states.contains(&cause));
    let leaves_open =
        |finding: &&Finding| wordings(&finding.what).any(|it| it.leaves_open.contains(&cause));
    let fits = |finding: &&Finding| states(finding) || leaves_open(finding);
    let mut faults = Faults::default();
    let is_false = |finding: &&Finding| !fits(finding) && !is_beside(cause, &finding.what);
    if let Some(other) = findings.iter().find(is_false) {
        faults.false_cause = Some(format!("false: {}", other.what));
    }
    if cause == "nothing-wrong" {
        return faults;
    }
    let Some(finding) = findings.iter().find(states).or_else(|| findings.iter().find(leaves_open))
    else {
        let what: Vec<_> = findings.iter().map(|finding| finding.what.as_str()).collect();
        faults.cause = Some(format!("no {cause} in {what:?}"));
        return faults;
    };
    let verdict = text(finding);
    let whole: String = findings.iter().map(text).collect::<Vec<_>>().join("\n");
    faults.size = truth.size_ns.and_then(|size_ns| size(truth, size_ns, &whole));
    faults.blame = blame(truth, &verdict, !states(&finding));
    faults.remedy = remedy(truth, finding);
    faults
}

/// Whether a finding states the truth's cause, and does not only leave it open.
pub(crate) fn states_cause(truth: &Truth, findings: &[Finding]) -> bool {
    let cause = truth.cause.as_str();
    findings.iter().any(|finding| wordings(&finding.what).any(|it| it.states.contains(&cause)))
}

/// Findings that may be reported beside a cause: what else the same lines show.
fn is_beside(cause: &str, what: &str) -> bool {
    const BESIDE: &[(&str, &[&str])] = &[
        // Late reads and interrupts that precede a verdict.
        ("late or skipped", &["read-delayed", "check-late", "forced-by-test", "not-knowable"]),
        ("reported stalled CPUs", &["check-late", "reference-wrapped", "read-delayed"]),
        (
            "A timer interrupt took",
            &["read-delayed", "reference-wrapped", "not-knowable", "interrupt-late", "check-late"],
        ),
        ("The firmware set up the TSC wrongly", &["warp-between-cpus", "reference-jumped"]),
        ("its CPUs' counters disagree", &["reference-jumped"]),
        ("may not set the clock", &["not-knowable"]),
        ("One calibration of the TSC failed", &["warp-between-cpus"]),
        // VBoxService sees a pause from outside, which made the check late.
        ("The host's time jumped", &["check-late"]),
        ("VirtualBox's guest tools set this guest's clock", &["check-late"]),
        ("Timer interrupts of a CPU do not arrive", &["interrupt-late"]),
        // What the daemon's lines show beside the clock.
        (
            "The time daemon had no server",
            &["two-daemons", "guest-paused", "stepped-by-daemon", "not-knowable", "rtc-wrong"],
        ),
        (
            "The time daemon has no server",
            &["two-daemons", "guest-paused", "stepped-by-daemon", "not-knowable", "rtc-wrong"],
        ),
    ];
    BESIDE.iter().any(|(phrase, causes)| what.contains(phrase) && causes.contains(&cause))
}

/// Figures have three digits.
const ROUNDING: f64 = 6e-3;

fn size(truth: &Truth, size_ns: f64, verdict: &str) -> Option<String> {
    let tolerance_ns = truth.tolerance_ns + ROUNDING * size_ns.abs() + 0.5;
    let shown = times(verdict);
    let fits = |time: &Time| {
        let sign = truth.sign == 0 || time.sign == truth.sign;
        sign && (time.ns - size_ns).abs() <= tolerance_ns
    };
    let cycles = truth.cs_hz.map(|hz| grouped((size_ns * hz / 1e9).round() as u64));
    let by_cycles = cycles.is_some_and(|cycles| verdict.contains(&format!("{cycles} cycles")));
    let is_excused = !truth.is_size_in_lines;
    (!shown.iter().any(fits) && !by_cycles && !is_excused)
        .then(|| format!("no {} × {size_ns} ns", truth.sign))
}

fn grouped(count: u64) -> String {
    instruments::figures::count(count)
}

/// A time in a text, and its sign: `-3.50 s`, `3.50 s behind`; 0 without either.
struct Time {
    ns: f64,
    sign: i8,
}

fn times(text: &str) -> Vec<Time> {
    const UNITS: [(&str, f64); 7] = [
        ("ns", 1.0),
        ("µs", 1e3),
        ("ms", 1e6),
        ("s", 1e9),
        ("min", 60e9),
        ("h", 3600e9),
        ("days", 86_400e9),
    ];
    let words: Vec<_> = text.split_whitespace().collect();
    let plain = |word: &str| word.trim_matches([',', '.', ':', ';', '(', ')']).to_owned();
    let mut times = Vec::new();
    for (at, pair) in words.windows(2).enumerate() {
        let figure = plain(pair[0]);
        let unit = plain(pair[1]);
        let Some((_, factor)) = UNITS.iter().find(|(name, _)| *name == unit) else { continue };
        let Ok(value) = figure.replace('−', "-").replace('\u{202f}', "").parse::<f64>() else {
            continue;
        };
        let after = words.get(at + 2).map(|word| plain(word)).unwrap_or_default();
        let sign = match (figure.chars().next(), after.as_str()) {
            (Some('-' | '−'), _) | (_, "behind") => -1,
            (Some('+'), _) | (_, "ahead") => 1,
            _ => 0,
        };
        times.push(Time { ns: value.abs() * factor, sign });
    }
    times
}

/// Whose fault it is, by the sentence that begins with `At fault: `.
fn blame(truth: &Truth, verdict: &str, is_open: bool) -> Option<String> {
    const WHO: &[(&str, &str)] = &[
        ("host", "host"),
        ("hypervisor", "host"),
        ("reference", "reference"),
        ("hardware", "hardware"),
        ("firmware", "hardware"),
        ("this machine's", "guest"),
        ("time daemon", "daemon"),
        ("time server", "daemon"),
        ("not shown", "unknown"),
    ];
    let Some((_, rest)) = verdict.split_once("At fault: ") else {
        return Some("no fault is named".into());
    };
    let sentence = rest.split(['.', '\n']).next().unwrap_or_default();
    let mut named: Vec<_> =
        WHO.iter().filter(|(word, _)| sentence.contains(word)).map(|(_, blame)| *blame).collect();
    named.dedup();
    // Two that the lines do not tell apart are not one. Why a clock was off before a step is
    // not in a daemon's lines.
    let is_undecided = named.contains(&"unknown") || named.len() > 1;
    let is_open = is_open || matches!(truth.cause.as_str(), "not-knowable" | "stepped-by-daemon");
    let fits = named.contains(&truth.blame.as_str())
        || (is_undecided && (is_open || truth.blame == "unknown"));
    (!fits || named.len() > 3).then(|| format!("blames {named:?}, the truth {}", truth.blame))
}

/// Kinds of remedy: the start of the truth's, what one of the verdict's must contain, and
/// what none may.
#[rustfmt::skip]
const REMEDIES: &[(&str, &[&str], &[&str])] = &[
    ("Add tsc=reliable", &["tsc=nowatchdog", "tsc=reliable", "HPET"], &[]),
    ("Boot the guest with tsc=nowatchdog", &["tsc=nowatchdog"], &["update the firmware"]),
    ("Boot with hpet=disable", &["hpet=disable"], &[]),
    ("Configure at least four", &["four"], &[]),
    ("Delete the drift file", &["drift file"], &["tsc=nowatchdog"]),
    ("Do nothing if a later line", &["Refined", "refined"], &["tsc=nowatchdog"]),
    ("Do nothing: the message belongs", &["Do nothing"], &["tsc=nowatchdog", "Update"]),
    ("Do nothing: these lines", &["Do nothing"], &["tsc=nowatchdog"]),
    ("Do not change the clock from these", &["full log", "chronyc tracking"], &["tsc=nowatchdog"]),
    ("Find why the clock was off", &["Find why", "Find whether"], &["tsc=nowatchdog"]),
    ("Give the guest its CPU time", &["CPU time", "stack trace"], &["tsc=nowatchdog"]),
    ("Give the timer interrupt", &["hpet", "acpi_pm"], &["tsc=nowatchdog"]),
    ("Keep the TSC", &["tsc=nowatchdog"], &["update the firmware", "Update the firmware"]),
    ("Reboot to calibrate again", &["tsc_early_khz", "recalibrate"], &["tsc=nowatchdog to"]),
    ("Repair the host's clock source", &["host"], &["tsc=nowatchdog"]),
    ("Replace the reference", &["tsc=nowatchdog", "hpet=disable"], &[]),
    ("Set the clock after each", &["makestep"], &["tsc=nowatchdog to"]),
    ("Set the hardware clock", &["hwclock"], &["tsc=nowatchdog"]),
    ("Stay on the clock source", &["Leave tsc unused", "do not force tsc", "Do not force tsc"], &["tsc=nowatchdog to"]),
    ("Stop one of the two", &["Stop", "other program"], &["tsc=nowatchdog"]),
    ("Update the firmware", &["firmware"], &["tsc=nowatchdog to"]),
    ("Update the kernel", &["update the kernel"], &["tsc=nowatchdog"]),
    ("Give the container", &["CAP_SYS_TIME"], &["tsc=nowatchdog"]),
    ("Remove the server", &["127.127.1.0"], &["tsc=nowatchdog"]),
    ("Update the hypervisor", &["Update the hypervisor"], &["tsc=nowatchdog"]),
    ("Wait until the daemon", &["Wait"], &["tsc=nowatchdog"]),
];

fn remedy(truth: &Truth, finding: &Finding) -> Option<String> {
    let kind = REMEDIES.iter().find(|(start, ..)| truth.remedy.starts_with(start));
    let Some((start, wanted, refused)) = kind else {
        return Some(format!("a remedy of no kind in the table: {}", truth.remedy));
    };
    let given: String = finding
        .remedies
        .iter()
        .map(|remedy| format!("{} {}\n", remedy.what, remedy.command.as_deref().unwrap_or("")))
        .collect();
    // A warning against a parameter is no advice to set it.
    let given = given.replace("Do not silence the watchdog (tsc=nowatchdog, tsc=reliable)", "");
    if let Some(part) = refused.iter().find(|part| given.contains(**part)) {
        return Some(format!("advises {part}, the truth: {start}"));
    }
    (!wanted.iter().any(|part| given.contains(part))).then(|| format!("no remedy like: {start}"))
}
