use super::*;

const HZ: f64 = 1e9;
/// The first look: the page's count is 5 s before.
const COUNT: u64 = 10_000_000_000;
const AT_NS: i64 = 1_800_000_005_250_250_000;

fn truth() -> VmClockInfo {
    let empty = VmClockInfo { size: 4096, ..VmClockInfo::ZERO };
    let at = Duration::new(1_800_000_000, 250_000_000);
    vmclock::filled(empty, HZ, (at, 5_000_000_000))
}

/// A look as the machine prints it: each second a pair, of which the clock is that far ahead
/// of the page, ns; the kernel's and the daemon's figures.
fn printed(ahead_ns: &[i64], ppm: f64, estimated_us: u64, state: &str) -> String {
    let pair = |(at_s, ahead_ns): (i64, &i64)| {
        // 50 ppm are 50 000 ns a second.
        let (realtime, raw) = (AT_NS + at_s * 1_000_050_000 + ahead_ns, at_s * 1_000_000_000);
        let count = COUNT + at_s.unsigned_abs() * 1_000_000_000;
        format!("{} {count} {} {} {count} {}\n", realtime - 100, realtime + 100, raw - 90, raw + 90)
    };
    let pairs: String = (0..).zip(ahead_ns).map(pair).collect();
    format!(
        "{pairs}@\n    mode:         0\n-o  offset:       0 us\n-f  freq.adjust:  {:.0} (65536 = \
         1ppm)\n    maxerror:     1300\n    esterror:     {estimated_us}\n@\n\
         {{\"clock\": {{\"state\": \"{state}\"}}, \"sources\": [{{\"state\": \"falseticker\"}}, \
         {{\"state\": \"selected\", \"age_s\": 0.25, \"bound_ns\": 251300}}]}}\n@\n09:00 the log\n",
        ppm * 65536.0
    )
}

fn look(ahead_ns: &[i64], ppm: f64, estimated_us: u64, state: &str) -> Look {
    Look::parse(&printed(ahead_ns, ppm, estimated_us, state)).unwrap()
}

#[test]
fn a_clock_near_the_page_is_right_and_another_is_not() {
    let near = |ahead_ns: &[i64], looks| {
        near("in calm", &truth(), &look(ahead_ns, 50.0, 1, "synchronised"), looks)
    };
    let right = near(&[0, -11_000, 3000], 3);
    assert!(right.passed, "{}", right.found);
    assert_eq!(right.found, "3 looks in 2 s: -11.00 ± 0.10 µs ahead at most; bound 1.30 µs");
    let wrong = near(&[0, -11_600, 3000], 3);
    assert!(!wrong.passed && wrong.found.ends_with("; 09:00 the log"), "{}", wrong.found);
    assert!(!near(&[0, 0], 3).passed, "a look is missing");
    let vague = printed(&[0], 50.0, 1, "synchronised").replace("251300}", "350001}");
    let vague = Look::parse(&vague).unwrap();
    assert!(!super::near("", &truth(), &vague, 1).passed, "its bound holds anything");
    let silent = printed(&[0], 50.0, 1, "unsynchronised").replace("251300}", "null}");
    let silent = Look::parse(&silent).unwrap();
    assert!(!super::near("", &truth(), &silent, 1).passed, "it states no bound");
}

#[test]
fn the_frequency_is_held_to_the_rate_that_was_written() {
    let frequency = |ppm: f64, seconds, within_ppm| {
        let calm = look(&vec![0; seconds], ppm, 1, "synchronised");
        frequency(&truth(), &calm, within_ppm)
    };
    let right = frequency(50.009, 601, 0.01);
    assert!(right.passed, "{}", right.found);
    assert_eq!(
        right.found,
        "50.0090 ppm set; 50.0000 ± 0.0003 ppm by the page and CLOCK_MONOTONIC_RAW"
    );
    assert!(!frequency(50.011, 601, 0.01).passed);
    assert!(!frequency(0.0, 601, 1.0).passed, "none was set");
    assert!(!frequency(50.0, 5, 0.01).passed, "not known so well after 4 s");
    assert!(!frequency(50.0, 1, 0.01).passed, "one look shows no rate");
}

#[test]
fn an_hour_is_held_within_what_the_kernel_is_told() {
    let calm = look(&[0; 10], 50.0, 1, "synchronised");
    let held = |ahead_ns: i64, estimated_us, state: &str, seconds: usize| {
        let mut all = vec![0; seconds];
        *all.last_mut().unwrap() = ahead_ns;
        super::held(&truth(), (&calm, &look(&all, 50.0, estimated_us, state)), 3600)
    };
    let right = held(-400_000, 400, "holdover", 3611);
    assert!(right.passed, "{}", right.found);
    // The page's period is a whole number, so its hour is 0.18 µs shorter.
    assert_eq!(
        right.found,
        "holdover after 3601 s: -399.82 ± 0.10 µs ahead; the kernel's maxerror is 400 µs"
    );
    assert!(!held(-412_000, 400, "holdover", 3611).passed, "farther off");
    assert!(!held(0, 1000, "holdover", 3611).passed, "that is no knowledge");
    assert!(!held(0, 400, "synchronised", 3611).passed, "it follows something");
    assert!(!held(0, 400, "holdover", 3600).passed, "less than an hour");
    let followed = i64::try_from(WRONG_S).unwrap() * 1_000_000_000;
    assert!(!held(followed, 400, "holdover", 3611).passed, "the page that tells no time");
}

#[test]
fn another_step_than_the_one_at_the_start_is_wrong() {
    let summary = |steps: u32| {
        stepped_once(&format!("summary: ran 75 min; none; steps {steps}, slews 0, refused 0"))
            .passed
    };
    assert!(summary(1) && !summary(0) && !summary(2) && !summary(11));
}

#[test]
fn what_is_no_look_is_refused() {
    let whole = printed(&[0, 0], 50.0, 1, "synchronised");
    for (from, to) in [
        ("@\n", ""),
        ("freq.adjust", "offset"),
        ("esterror", "maxerror"),
        ("{\"clock\"", "parachron: nobody there"),
        (" 10000000000 ", " ten "),
        ("\n@\n    mode", " 5\n@\n    mode"),
    ] {
        assert!(Look::parse(&whole.replacen(from, to, 1)).is_err(), "{from}");
    }
    assert!(Look::parse(&whole).is_ok());
}

#[test]
fn the_counters_rate_is_that_by_an_unsteered_clock() {
    let two = printed(&[0, 0], 0.0, 1, "");
    let (hz, (at, count)) =
        look::rate(&look::pairs(two.split('@').next().unwrap()).unwrap()).unwrap();
    assert_eq!((hz, count), (HZ, COUNT + 1_000_000_000));
    assert_eq!(i128::try_from(at.as_nanos()).unwrap(), i128::from(AT_NS) + 1_000_050_000);
    assert!(look::rate(&[]).is_err());
}
