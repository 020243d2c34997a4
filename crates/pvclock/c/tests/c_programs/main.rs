//! C and C++ programs compile against the header, link with the library, and
//! read pages that Rust writes.

#[path = "../callers.rs"]
mod callers;
#[path = "../header.rs"]
mod header;
mod layout;
mod library;
#[path = "../protocol_examples/main.rs"]
mod protocol_examples;
mod shared_page;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use library::{build, compile, crate_folder, has_cpp, lines, program};
use pvclock::counter::{Counter as _, CpuCounter};
use pvclock::kvm_clock::{Flags, TimeInfo, TimeUpdate, TimeWriter};
use pvclock::vmclock::{CounterId, TimeType, VmClockFlags, VmClockInfo, VmClockStatus};
use pvclock::{Hertz, Nanos, Scale};
use shared_page::SharedPage;
use tempfile::TempDir;

/// A page seen on a live machine with a TSC of 2.445428 GHz.
const LIVE: TimeInfo = TimeInfo {
    version: 32,
    tsc_timestamp: 3_451_391_528,
    system_time: Nanos(1_411_981_263),
    scale: Scale::from_parts(3_512_650_788, -1),
    flags: Flags::TSC_STABLE,
};

/// The example, compiled, and the folder that goes with it.
fn example() -> (TempDir, PathBuf) {
    program("cc", "-std=c11", "examples/read_clock.c")
}

fn run(program: &Path, page: &Path, tscs: &[String]) -> Output {
    Command::new(program).arg(page).args(tscs).output().unwrap()
}

#[test]
fn the_example_reads_a_page_that_rust_writes() {
    let (_folder, program) = example();
    let shared = SharedPage::new(&LIVE);
    TimeWriter::new(shared.page()).write(&TimeUpdate {
        tsc_timestamp: LIVE.tsc_timestamp,
        system_time: LIVE.system_time,
        scale: LIVE.scale,
        stable: true,
    });
    let tscs = ["3451391528", "5896819528", "3451391526"].map(str::to_owned);
    let output = run(&program, shared.path(), &tscs);
    assert_eq!(
        lines(&output)[..5],
        [
            "page: version 34, flags 0x1, TSC 3451391528 = 1411981263 ns",
            "rate: mul 3512650788, shift -1: 2445428000 Hz",
            "3451391528: 1411981263 ns",
            "5896819528: 2411981262 ns",
            "3451391526: 1411981263 ns",
        ]
    );
}

/// Ours, the program's, ours again: in this order, if all three read alike.
#[cfg(target_arch = "x86_64")]
#[test]
fn the_example_tells_the_same_time_as_rust() {
    use pvclock::counter::{Counter, Tsc};
    use pvclock::kvm_clock::TimeReader;

    let (_folder, program) = example();
    let now = TimeInfo { tsc_timestamp: Tsc.read_ordered(), ..LIVE };
    let shared = SharedPage::new(&now);
    let ours = || TimeReader::new(shared.page()).nanos_ordered(&Tsc).unwrap().0;
    let before = ours();
    let output = run(&program, shared.path(), &[]);
    let after = ours();
    assert!(output.status.success(), "{output:?}");
    let printed = lines(&output)[2].strip_prefix("now: ").unwrap().strip_suffix(" ns").unwrap();
    let printed: u64 = printed.parse().unwrap();
    assert!(before < printed && printed < after, "{before} ns, then {printed} ns, then {after} ns");
}

/// At 1 GHz a page may be rewritten with every TSC, and still gives the
/// same: any other answer is a torn one.
#[test]
fn the_example_reads_whole_pages_while_rust_writes() {
    let (_folder, program) = example();
    let scale = Scale::from_hertz(Hertz(1_000_000_000)).unwrap();
    let at = |tsc_timestamp: u64| TimeUpdate {
        tsc_timestamp,
        system_time: Nanos(tsc_timestamp - (1 << 40)),
        scale,
        stable: true,
    };
    let shared = SharedPage::new(&LIVE);
    let mut writer = TimeWriter::new(shared.page());
    writer.write(&at(1 << 50));
    let tscs: Vec<String> = (1..=1_000u64).map(|n| ((1 << 45) + n).to_string()).collect();
    let mut child = Command::new(&program)
        .arg(shared.path())
        .args(&tscs)
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut updates = 0u64;
    while child.try_wait().unwrap().is_none() {
        for _ in 0..10_000 {
            updates += 1;
            writer.write(&at((1 << 50) + updates * 0x1_2345_6789));
        }
    }
    let output = child.wait_with_output().unwrap();
    let printed: Vec<(&str, &str)> =
        lines(&output).iter().filter_map(|line| line.split_once(": ")).collect();
    let mut whole = 0;
    for tsc in &tscs {
        let (_, answer) = printed.iter().find(|(when, _)| when == tsc).unwrap();
        // A busy machine may keep this thread off its CPU in mid-write for
        // longer than any reader waits.
        if *answer != "the page was being written at every try" {
            assert_eq!(*answer, format!("{} ns", tsc.parse::<u64>().unwrap() - (1 << 40)));
            whole += 1;
        }
    }
    assert!(whole > 0, "no read ended between {updates} updates");
}

#[test]
fn the_example_prints_why_there_is_no_time() {
    let (folder, program) = example();
    let no_time = |info: &TimeInfo| {
        let output = run(&program, SharedPage::new(info).path(), &[]);
        assert_eq!(output.status.code(), Some(1));
        lines(&output).join("\n")
    };
    assert_eq!(
        no_time(&TimeInfo { version: 33, ..LIVE }),
        "page: the page was being written at every try\n\
         now: the page was being written at every try"
    );
    assert_eq!(
        no_time(&TimeInfo::default()),
        "page: version 0, flags 0, TSC 0 = 0 ns\n\
         rate: no scale stands for this frequency\n\
         now: the page is switched off: use another clock"
    );
    assert!(
        no_time(&TimeInfo { tsc_timestamp: u64::MAX >> 1, ..LIVE })
            .ends_with("now: the counter is behind the page's time stamp")
    );

    let short = folder.path().join("short");
    std::fs::write(&short, [0; 31]).unwrap();
    for (path, why) in [(&short, "31 bytes, but a page has 32"), (&folder.path().join("none"), "")]
    {
        let output = run(&program, path, &[]);
        assert_eq!((output.status.code(), lines(&output).len()), (Some(2), 0));
        assert!(str::from_utf8(&output.stderr).unwrap().contains(why));
    }
}

#[test]
fn the_example_prints_utc_or_why_the_page_has_none() {
    let (folder, program) = program("cc", "-std=c99", "examples/read_vmclock.c");
    let path = folder.path().join("page");
    let good = VmClockInfo {
        size: 4096,
        counter_id: CounterId::NATIVE,
        time_type: TimeType::TAI,
        clock_status: VmClockStatus::SYNCHRONISED,
        flags: VmClockFlags::TAI_OFFSET_VALID
            .union(VmClockFlags::PERIOD_MAX_ERROR_VALID)
            .union(VmClockFlags::TIME_MAX_ERROR_VALID),
        tai_offset_s: -37,
        counter_value: CpuCounter.read_ordered(),
        // So short a cycle that no time passes.
        period: 1,
        time_sec: 1_700_000_037,
        time_max_error: Nanos(250),
        ..VmClockInfo::ZERO
    };
    let printed = |info: VmClockInfo| {
        std::fs::write(&path, info.to_bytes()).unwrap();
        let output = Command::new(&program).arg(&path).output().unwrap();
        (output.status.code().unwrap(), lines(&output).join("\n"))
    };
    let utc = "UTC: 1700000000.000000000 s, at most 250 ns off".to_owned();
    assert_eq!(printed(good), (0, utc.clone()));
    assert_eq!(printed(VmClockInfo { tai_offset_s: 37, ..good }), (0, utc));
    for (bad, why) in [
        (
            VmClockInfo { clock_status: VmClockStatus::UNRELIABLE, ..good },
            "the host's clock is not synchronised",
        ),
        (
            VmClockInfo { flags: VmClockFlags::TAI_OFFSET_VALID, ..good },
            "the host states no error bound",
        ),
        (
            VmClockInfo { time_type: TimeType::MONOTONIC, ..good },
            "the page has neither UTC nor TAI",
        ),
        (
            VmClockInfo { counter_id: CounterId::INVALID, ..good },
            "the page is switched off: use another clock",
        ),
    ] {
        assert_eq!(printed(bad), (1, format!("no UTC: {why}")));
    }
    std::fs::write(&path, [0; 111]).unwrap();
    let short = Command::new(&program).arg(&path).output().unwrap();
    assert_eq!(short.status.code(), Some(2));
}

#[test]
fn every_function_answers_c_as_the_header_says() {
    let (_folder, program) = program("cc", "-std=c11", "tests/c_programs/interface.c");
    let output = Command::new(&program).output().unwrap();
    assert!(output.status.success(), "{}", str::from_utf8(&output.stdout).unwrap());
}

#[test]
fn structures_lie_in_c_as_in_rust() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("layout.c");
    std::fs::write(&source, layout::assertions()).unwrap();
    compile("cc", "-std=c11", |cc| {
        cc.arg("-fsyntax-only").arg(&source);
    });
}

#[test]
fn cpp_programs_can_use_the_header() {
    if !has_cpp() {
        return;
    }
    let (_folder, program) = program("c++", "-std=c++11", "tests/c_programs/header.cpp");
    let output = Command::new(&program).output().unwrap();
    assert_eq!(lines(&output), ["2600000000 Hz: mul 3303820996, shift -1"]);
}

/// By the README's command for kernels, in a folder of its own, for both
/// libraries would have the same path.
fn library_without_unwinding() -> PathBuf {
    let target_folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("without-unwinding");
    build(&target_folder, &["--config", "profile.dist.panic=\"abort\""])
}

/// Panicking needs the C library. A program of all functions that links
/// without it has no path to a panic, and a kernel can use the library.
#[test]
fn the_library_needs_no_c_library_and_cannot_panic() {
    let header = std::fs::read_to_string(crate_folder().join("include/pvclock.h")).unwrap();
    let functions: std::collections::BTreeSet<&str> = header
        .split(|c: char| !(c.is_ascii_alphanumeric() || "_(".contains(c)))
        .filter(|word| word.starts_with("pvclock_"))
        .filter_map(|word| word.split_once('(').map(|(name, _)| name))
        .collect();
    assert!(functions.len() >= 31, "{functions:?}");
    let mut program = "#include \"pvclock.h\"\ntypedef void function(void);\n\
        function *const all[] = {\n"
        .to_owned();
    for name in functions {
        program += &format!("    (function *){name},\n");
    }
    program += "};\nvoid entry(void);\n\
        void entry(void) { __asm__ volatile(\"\" : : \"r\"(all)); for (;;) { } }\n";

    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("all.c");
    std::fs::write(&source, program).unwrap();
    compile("cc", "-std=c11", |cc| {
        // GCC warns that the functions have other types.
        cc.args(["-Wno-cast-function-type", "-ffreestanding", "-nostdlib", "-static"])
            .args(["-Wl,--gc-sections,-e,entry"])
            .arg(&source)
            .arg(library_without_unwinding())
            .arg("-o")
            .arg(folder.path().join("all"));
    });
}
