//! No parser panics, whatever it is given; and what a capture keeps of a
//! file is the same when it is captured again.

use facts::cpu::{self, cpuid};
use facts::kernel::{self, catalogue};
use facts::{clocksource, hardware, steering, system};
use inspect::tree::manifest::Manifest;
use proptest::prelude::*;

/// Every parser of text.
fn parse_all(text: &str) {
    clocksource::parse_available(text);
    clocksource::parse_current(text);
    cpu::parse_model(text);
    cpu::parse_flags(text);
    cpu::parse_online(text);
    cpuid::parse_leaves(text);
    cpuid::parse_hypervisor(text);
    cpuid::parse_tsc_hz(text);
    kernel::parse_command_line(text);
    kernel::parse_configuration(text);
    kernel::parse_log(text);
    catalogue::parse(text);
    steering::parse_adjtimex(text);
    steering::parse_keepers(text);
    steering::parse_tracking(text);
    hardware::parse_convention(text);
    hardware::parse_kvm_host(text);
    hardware::parse_pvclock_page(text);
    hardware::parse_vmclock(text);
    system::parse_container(text);
    system::parse_distribution(text);
    system::parse_loadavg(text);
    system::parse_steal(text, Some(1.0));
    system::parse_uptime(text);
    let _: Result<_, _> = Manifest::parse(text);
}

/// Every reduction, by name.
type Reduction = (&'static str, fn(&str) -> String);
const REDUCTIONS: [Reduction; 7] = [
    ("cpuinfo", cpu::reduce_cpuinfo),
    ("command line", kernel::reduce_command_line),
    ("configuration", kernel::reduce_configuration),
    ("log", kernel::reduce_log),
    ("tracking", steering::reduce_tracking),
    ("os-release", system::reduce_os_release),
    ("stat", system::reduce_stat),
];

/// Text made of the words that the parsers recognise, so that they get far.
fn soup() -> impl Strategy<Value = String> {
    let word = prop_oneof![
        prop::sample::select(WORDS.to_vec()).prop_map(str::to_owned),
        any::<i64>().prop_map(|number| number.to_string()),
        any::<u64>().prop_map(|number| format!("{number:#x}")),
        "[ -~]{0,6}",
        any::<char>().prop_map(String::from),
    ];
    prop::collection::vec(word, 0..60).prop_map(|words| words.concat())
}

const WORDS: &[&str] = &[
    " ",
    " ",
    "\n",
    "\t",
    ",",
    ":",
    ": ",
    "=",
    "-",
    ".",
    "'",
    "\"",
    "[",
    "] ",
    "<6>",
    ";",
    " ns",
    " MHz",
    "0x",
    "clocksource: ",
    "Clocksource ",
    "Watchdog ",
    " interval:",
    "Marking clocksource ",
    " as unstable because ",
    " unstable (delta = ",
    "Marking TSC unstable due to",
    "wd_nsec: ",
    "cs_nsec: ",
    "' wd_",
    "' cs_",
    " skewed ",
    "interval of ",
    "read-back delay of ",
    "tsc: Detected ",
    "processor",
    "hrtimer: interrupt took ",
    " kernel: ",
    "Linux version ",
    "! [",
    "T1",
    "eax=",
    "ebx=",
    "ecx=",
    "edx=",
    "0x40000000",
    "0x00000001 0x00:",
    "0x00000015",
    "CONFIG_HZ=",
    "cpu ",
    "btime ",
    "model name",
    "flags",
    "version ",
    "tsc_shift ",
    "flags ",
    "offset ",
    "status ",
    "tai ",
    "tick ",
    "chrony ",
    "installed",
    "running",
    "namespaces ",
    "initial",
    "PRETTY_NAME=",
    "ID=",
    "UTC",
    "LOCAL",
    "nan",
    "inf",
    "1e309",
    "quiet",
    "withheld",
    "--",
    "tsc=",
    "6,1,2,-;",
    "{",
    "}",
    "null",
    "\"format\":1",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_parser_panics_on_any_text(text in any::<String>()) {
        parse_all(&text);
    }

    #[test]
    fn no_parser_panics_on_words_it_knows(text in soup()) {
        parse_all(&text);
    }

    #[test]
    fn no_unpacking_panics(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        inspect::unpack(&bytes);
        let gzip = [&[0x1f, 0x8b, 8, 0][..], &bytes].concat();
        inspect::unpack(&gzip);
    }

    #[test]
    fn what_is_kept_is_kept_again(text in soup()) {
        // A tree hands out no text with control characters but these.
        let text = text.replace(|c: char| c.is_control() && c != '\n' && c != '\t', "?");
        for (name, reduce) in REDUCTIONS {
            let once = reduce(&text);
            prop_assert_eq!(reduce(&once), once, "{}", name);
        }
        let once = system::reduce_loadavg(&text);
        prop_assert_eq!(system::reduce_loadavg(&once), once);
    }
}
