//! A bad value for each key: another type, out of range, empty where that is no value. The
//! message says what would be right, and what is there instead.

use super::*;

/// A key's mistakes: the value as TOML, and what is said of it.
type Bad = (&'static str, &'static [(&'static str, &'static str)]);

const TIME: &str = "expected a time such as 2s, 500ms or 5min (ns, us, ms, s, min, h, d; more than \
                    0, at most a year), found ";
const RATE: &str = "expected auto, or 0.001ppm to 500ppm, found ";
const SERVER: &str = "expected HOST, HOST:PORT or [ADDRESS]:PORT, found ";
const DEVICE: &str = "expected a device such as /dev/ptp0, /dev/ptp1,utc, /dev/ptp1,tai or \
                      /dev/ptp1,tai=37, found ";
const ADDRESS: &str =
    "expected ADDRESS:PORT, such as 127.0.0.1:9975 or [::1]:9975, or /PATH, found ";
const PATH: &str = "expected a path that begins with /, found ";
const NO_TEXT: (&str, &str) = ("5", "expected text in quotes, found integer");
const NO_LIST: (&str, &str) = ("'one'", "expected a list in [ ], found string");
const NO_TEXT_IN_IT: (&str, &str) = ("[5]", "expected text in quotes, found integer");
const NO_SWITCH: &[(&str, &str)] = &[
    ("'yes'", "expected true or false, found string"),
    ("1", "expected true or false, found integer"),
    ("''", "expected true or false, found string"),
];
const NO_TIME: &[(&str, &str)] = &[
    NO_TEXT,
    ("''", TIME),
    ("'soon'", TIME),
    ("'-1s'", TIME),
    ("'0s'", TIME),
    ("'2 parsec'", TIME),
    ("'1e999s'", TIME),
    ("'99999999999999999999s'", TIME),
    ("'400d'", TIME),
];
const NO_PATH_OR_NONE: &[(&str, &str)] =
    &[NO_TEXT, ("'run/h'", PATH), ("['/run/h']", "expected text in quotes, found array")];
const NO_PATH: &[(&str, &str)] =
    &[NO_TEXT, ("''", PATH), ("'dev/v'", PATH), ("\"/dev/\\u0000\"", PATH)];

const BAD: &[Bad] = &[
    (
        "ntp",
        &[
            NO_LIST,
            NO_TEXT_IN_IT,
            ("['']", SERVER),
            ("['a b']", SERVER),
            ("['a.example:0']", SERVER),
            ("['a.example:70000']", SERVER),
            ("['a', 'b', '[::1']", SERVER),
        ],
    ),
    (
        "timeout",
        &[
            NO_TEXT,
            ("''", TIME),
            ("'2s'", "expected 1ms to 1s, found"),
            ("'1us'", "expected 1ms to 1s, found"),
            ("'0s'", TIME),
        ],
    ),
    (
        "poll",
        &[
            NO_TEXT,
            ("''", TIME),
            ("'25h'", "expected 1s to 24h, found"),
            ("'500ms'", "expected 1s to 24h, found"),
        ],
    ),
    (
        "max-distance",
        &[
            NO_TEXT,
            ("''", TIME),
            ("'17s'", "expected 1ms to 16s, found"),
            ("'1us'", "expected 1ms to 16s, found"),
        ],
    ),
    (
        "max-clock-error",
        &[
            NO_TEXT,
            ("''", RATE),
            ("'15'", RATE),
            ("'-15ppm'", RATE),
            ("'0ppm'", RATE),
            ("'501ppm'", RATE),
            ("'NaNppm'", RATE),
            ("'15 ppb'", RATE),
        ],
    ),
    (
        "phc",
        &[
            NO_LIST,
            NO_TEXT_IN_IT,
            ("['']", DEVICE),
            ("['ptp1']", DEVICE),
            ("['/dev/ptp1,gps']", DEVICE),
            ("['/dev/ptp1,tai=a']", DEVICE),
            ("['/dev/ptp1,tai=99999999999']", DEVICE),
        ],
    ),
    ("host-socket", NO_PATH_OR_NONE),
    (
        "host-vsock",
        &[
            ("'123'", "expected a number, found string"),
            ("-1", "expected 0 to 4294967294, found -1"),
            ("4294967295", "expected 0 to 4294967294, found 4294967295"),
            ("1.5", "expected a number, found float"),
            ("''", "expected a number, found string"),
        ],
    ),
    ("host-port", NO_PATH_OR_NONE),
    (
        "no-source",
        &[
            NO_LIST,
            NO_TEXT_IN_IT,
            ("['ntp']", "expected vmclock, phc or rtc, found \"ntp\""),
            ("['']", "expected vmclock, phc or rtc, found \"\""),
        ],
    ),
    ("step-threshold", NO_TIME),
    ("tolerance", NO_TIME),
    ("max-step", NO_TIME),
    (
        "burst",
        &[
            ("'3'", "expected a number, found string"),
            ("0", "expected 1 to 100, found 0"),
            ("101", "expected 1 to 100, found 101"),
            ("-1", "expected 1 to 100, found -1"),
            ("99999999999999999999", "expected 1 to 100, found 99999999999999999999"),
        ],
    ),
    ("min-interval", NO_TIME),
    ("never-backward", NO_SWITCH),
    (
        "chrony",
        &[
            NO_LIST,
            NO_TEXT_IN_IT,
            ("['makestop']", "expected makestep, makestep=PATH or sock=PATH, found \"makestop\""),
            ("['sock=']", "expected makestep, makestep=PATH or sock=PATH, found \"sock=\""),
            ("['']", "expected makestep, makestep=PATH or sock=PATH, found \"\""),
            ("['sock=run/c']", PATH),
            (
                "['sock=/a', 'sock=/b']",
                "expected makestep once and sock=PATH once at the most, found 2 entries",
            ),
        ],
    ),
    (
        "allow-daemon",
        &[
            NO_LIST,
            NO_TEXT_IN_IT,
            ("['sundial']", "expected one of chrony, "),
            ("['']", "expected one of chrony, "),
        ],
    ),
    ("force", NO_SWITCH),
    ("dry-run", NO_SWITCH),
    (
        "interval",
        &[
            NO_TEXT,
            ("''", TIME),
            ("'1ms'", "expected 10ms to 10s, found"),
            ("'11s'", "expected 10ms to 10s, found"),
        ],
    ),
    ("status-socket", NO_PATH_OR_NONE),
    (
        "metrics",
        &[
            ("9975", "expected text in quotes, found integer"),
            ("'9975'", ADDRESS),
            ("'localhost:9975'", ADDRESS),
            ("'127.0.0.1:70000'", ADDRESS),
            ("'127.0.0.1'", ADDRESS),
            ("'127.0.0.1:0'", ADDRESS),
        ],
    ),
    ("listen-anywhere", NO_SWITCH),
    ("records", NO_PATH_OR_NONE),
    (
        "records-limit",
        &[
            ("'64'", "expected a number, found string"),
            ("3", "expected 4 to 1000000, found 3"),
            ("1000001", "expected 4 to 1000000, found 1000001"),
        ],
    ),
    (
        "consumers",
        &[NO_LIST, NO_TEXT_IN_IT, ("['etcdd']", "expected one of "), ("['']", "expected one of ")],
    ),
    ("state-folder", NO_PATH_OR_NONE),
    ("clockbound", NO_PATH_OR_NONE),
    (
        "gate",
        &[
            NO_LIST,
            NO_TEXT_IN_IT,
            ("['db']", "expected \"/PATH\" below the cgroup mount, "),
            ("['']", "expected \"/PATH\" below the cgroup mount, "),
            ("['/a/../b']", "expected a control group without \"..\", "),
        ],
    ),
    (
        "gate-bound",
        &[
            NO_TEXT,
            ("''", TIME),
            ("'1us'", "expected 10us to 10s, "),
            ("'11s'", "expected 10us to "),
        ],
    ),
    (
        "gate-limit",
        &[
            NO_TEXT,
            ("''", TIME),
            ("'99ms'", "expected 100ms to 10min, "),
            ("'1h'", "expected 100ms"),
        ],
    ),
    ("gate-socket", NO_PATH),
    ("host-time", NO_PATH_OR_NONE),
    ("vmclock", NO_PATH),
    ("kernel-log", NO_PATH),
];

#[test]
fn each_key_has_bad_values_and_a_message_that_says_what_would_be_right() {
    assert!(OPTIONS.iter().map(|option| option.key).eq(BAD.iter().map(|(key, _)| *key)));
    let mut wrong = String::new();
    for (key, values) in BAD {
        for (value, said) in *values {
            let text = format!("# A comment.\n{key} = {value}\n");
            let mistakes = parse(&text).err().unwrap_or_default();
            let whats: Vec<_> = mistakes.iter().map(ToString::to_string).collect();
            // In the second line, in the value.
            let is_there = |one: &Mistake| {
                let value = key.len() + 4..=key.len() + 3 + value.len();
                one.line == 2 && value.contains(&one.column)
            };
            let is_said = |one: &Mistake| {
                one.what.starts_with(&format!("{key}: {said}")) && one.what.contains("found ")
            };
            if !matches!(&mistakes[..], [one] if is_there(one) && is_said(one)) {
                wrong += &format!("{key} = {value}: {whats:?}\n");
            }
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

/// Empty, huge, negative, without unit, of another shape: a key takes an empty text where that is
/// no path or address, an empty list, a number as seconds, and none of the rest.
#[test]
fn no_key_takes_a_value_that_means_nothing() {
    let long = format!("'{}'", "x".repeat(100_000));
    let values = [
        "''",
        "[]",
        "'5'",
        "'-5'",
        "' '",
        "-9223372036854775808",
        "99999999999999999999999999",
        "1e999",
        "nan",
        "{}",
        "[[]]",
        "['']",
        "1979-05-27",
        "\"\\u0000\"",
        &long,
    ];
    let mut taken = Vec::new();
    for option in OPTIONS {
        for value in values {
            let parsed = parse(&format!("{} = {value}\n", option.key));
            let is_none = value == "''" && option.default_toml.starts_with('"')
                || value == "[]" && option.is_list();
            let is_seconds = value == "'5'" && option.value_name == "TIME";
            if parsed.is_ok() && !is_none && !is_seconds {
                taken.push(format!("{} = {:.40}", option.key, value));
            }
        }
    }
    assert_eq!(taken, [""; 0]);
}
