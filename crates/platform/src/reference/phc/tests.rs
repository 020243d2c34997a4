use std::cell::RefCell;

use super::*;

fn time(sec: i64, nsec: u32) -> ptp_clock_time {
    ptp_clock_time { sec, nsec, reserved: 0 }
}

#[test]
fn a_latched_pair_has_no_width() {
    let mut pair = ptp_sys_offset_precise {
        device: time(1_795_000_037, 5),
        sys_realtime: time(1_795_000_000, 7),
        sys_monoraw: time(44, 9),
        rsv: [0; 4],
    };
    let compared = from_precise(&pair).unwrap();
    assert_eq!(compared.device_ns, (1_795_000_037_000_000_005, 1_795_000_037_000_000_005));
    assert_eq!(compared.realtime_ns, (1_795_000_000_000_000_007, 1_795_000_000_000_000_007));
    assert_eq!(compared.raw_ns, Some(44_000_000_009));
    pair.sys_realtime.sec = -1;
    assert_eq!(from_precise(&pair), None);
}

#[test]
fn the_tightest_of_many_is_taken() {
    let mut triples = ptp_sys_offset_extended {
        n_samples: 3,
        clockid: 0,
        rsv: [0; 2],
        ts: [[time(0, 0); 3]; 25],
    };
    triples.ts[0] = [time(1, 0), time(5, 10), time(1, 900)];
    triples.ts[1] = [time(1, 2000), time(5, 2010), time(1, 2100)];
    triples.ts[2] = [time(1, 4000), time(5, 4010), time(1, 3900)];
    let compared = from_extended(&triples).unwrap();
    assert_eq!(compared.realtime_ns, (1_000_002_000, 1_000_002_100));
    assert_eq!(compared.device_at_realtime_ns, 5_000_002_010);
    assert_eq!(compared.device_ns, (5_000_000_010, 5_000_004_010));
    triples.n_samples = 26;
    assert_eq!(from_extended(&triples), None);
}

#[test]
fn a_file_that_is_no_such_clock_is_told() {
    let why = Phc::open(Path::new("/dev/null")).unknown().unwrap().to_string();
    assert!(why.starts_with("not readable: /dev/null: "), "{why}");
    assert!(Phc::open(Path::new("/dev/ptp999")).unknown().is_some());
}

/// A device of `testdata/phc`: each request is answered by the next line; the
/// first answer of a way is given twice, as it is asked for once to find out.
#[derive(Debug)]
struct Trace {
    lines: RefCell<Vec<String>>,
    asked: RefCell<bool>,
}

fn trace(name: &str) -> Trace {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/phc").join(name);
    let text = std::fs::read_to_string(file).unwrap();
    let lines = text.lines().rev().map(str::to_owned).collect();
    Trace { lines: RefCell::new(lines), asked: RefCell::new(false) }
}

/// `seconds.nanoseconds`.
fn parsed(text: &str) -> ptp_clock_time {
    let (sec, nsec) = text.trim().split_once('.').unwrap();
    time(sec.parse().unwrap(), nsec.parse().unwrap())
}

impl Trace {
    fn next(&self, way: &str) -> io::Result<String> {
        let mut lines = self.lines.borrow_mut();
        let line = lines.last().cloned().expect("a line for each request");
        if let Some(error) = line.strip_prefix("error: ") {
            let (failed, number) = error.split_once(' ').unwrap();
            assert_eq!(failed, way);
            lines.pop();
            return Err(io::Error::from_raw_os_error(number.parse().unwrap()));
        }
        if self.asked.replace(true) {
            lines.pop();
        }
        let (kind, times) = line.split_once(": ").unwrap();
        assert_eq!(kind, way.to_lowercase());
        Ok(times.to_owned())
    }
}

impl Device for Trace {
    fn precise(&self) -> io::Result<ptp_sys_offset_precise> {
        let line = self.next("PRECISE")?;
        let times: Vec<_> = line.split(',').map(parsed).collect();
        let [device, sys_realtime, sys_monoraw] = times[..] else { panic!("{line}") };
        Ok(ptp_sys_offset_precise { device, sys_realtime, sys_monoraw, rsv: [0; 4] })
    }

    fn extended(&self) -> io::Result<ptp_sys_offset_extended> {
        let line = self.next("EXTENDED")?;
        let mut triples = ptp_sys_offset_extended {
            n_samples: 0,
            clockid: libc::CLOCK_REALTIME,
            rsv: [0; 2],
            ts: [[time(0, 0); 3]; 25],
        };
        for (triple, words) in triples.ts.iter_mut().zip(line.split(';')) {
            let times: Vec<_> = words.split_whitespace().map(parsed).collect();
            *triple = times.try_into().unwrap();
            triples.n_samples += 1;
        }
        Ok(triples)
    }
}

#[test]
fn a_trace_of_latched_pairs_is_read() {
    let phc = Phc::over(Path::new("trace"), Box::new(trace("latched.txt")));
    let phc = phc.known().unwrap();
    assert_eq!(phc.way(), Way::Precise);
    let compared: Vec<Comparison> =
        (0..12).map(|_| phc.compare().known().copied().unwrap()).collect();
    // 1500 ns ahead at the start, and 40 ppm of the time since.
    for one in &compared {
        let since = one.realtime_ns.0 - 1_795_000_000_000_000_000;
        let ahead = one.device_at_realtime_ns - one.realtime_ns.0;
        assert_eq!(ahead, 1500 + since * 40 / 1_000_000, "{one:?}");
        assert_eq!(one.raw_ns, Some(44_000_000_000 + since), "{one:?}");
    }
}

#[test]
fn a_trace_without_latching_is_read_around_the_device() {
    let phc = Phc::over(Path::new("trace"), Box::new(trace("read_around.txt")));
    let phc = phc.known().unwrap();
    assert_eq!(phc.way(), Way::Extended);
    for _ in 0..12 {
        let one = phc.compare().known().copied().unwrap();
        let (before, after) = one.realtime_ns;
        // Never the delayed sample.
        assert_eq!((after - before, one.raw_ns), (900, None), "{one:?}");
        assert_eq!(one.device_at_realtime_ns - before, 37_000_000_450, "{one:?}");
    }
}
