mod trace;

use std::cell::Cell;
use std::rc::Rc;

use super::*;
use trace::{replayed, time};

const S: u64 = 1_000_000_000;

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
    assert_eq!(
        compared.cross_timestamp.realtime_ns,
        (1_795_000_000_000_000_007, 1_795_000_000_000_000_007)
    );
    assert_eq!(compared.cross_timestamp.raw_ns, Some(44_000_000_009));
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
    assert_eq!(compared.cross_timestamp.realtime_ns, (1_000_002_000, 1_000_002_100));
    assert_eq!(compared.cross_timestamp.shown_ns, 5_000_002_010);
    assert_eq!(compared.device_ns, (5_000_000_010, 5_000_004_010));
    let less = compared.minus_s(4).unwrap();
    assert_eq!((less.cross_timestamp.shown_ns, less.device_ns.0), (1_000_002_010, 1_000_000_010));
    assert_eq!(
        (less.cross_timestamp.realtime_ns, compared.minus_s(6)),
        (compared.cross_timestamp.realtime_ns, None)
    );
    triples.n_samples = 26;
    assert_eq!(from_extended(&triples), None);
}

#[test]
fn each_time_of_the_device_is_between_two_of_the_system() {
    let triples = in_triples(&std::array::from_fn(|index| time(index as i64, 0)));
    let seconds = |index: usize| triples[index].map(|time| time.sec);
    assert_eq!((seconds(0), seconds(1), seconds(24)), ([0, 1, 2], [2, 3, 4], [48, 49, 50]));
}

/// ptp_kvm: it latches by kvm-clock, and has the plain request alone once the TSC is the source.
#[derive(Debug)]
struct Switched(Rc<Cell<bool>>);

impl Device for Switched {
    fn precise(&self) -> io::Result<ptp_sys_offset_precise> {
        let (device, sys_realtime, sys_monoraw) = (time(5, 0), time(1, 0), time(1, 0));
        let pair = ptp_sys_offset_precise { device, sys_realtime, sys_monoraw, rsv: [0; 4] };
        let error = io::Error::from_raw_os_error(libc::ENODEV);
        if self.0.get() { Err(error) } else { Ok(pair) }
    }

    fn extended(&self) -> io::Result<ptp_sys_offset_extended> {
        Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP))
    }

    fn plain(&self) -> io::Result<ptp_sys_offset_extended> {
        Ok(with_times([[time(1, 0), time(5, 10), time(1, 900)]; 25]))
    }
}

#[test]
fn a_device_that_latches_no_more_is_read_by_what_is_left() {
    let is_switched = Rc::new(Cell::new(false));
    let open = || PhcDevice::over(Box::new(Switched(is_switched.clone()))).unwrap();
    let phc = open();
    assert_eq!((phc.method(), phc.read().unwrap().device_ns.0), (PhcMethod::Precise, 5 * S));
    is_switched.set(true);
    assert_eq!(phc.read().unwrap().device_ns.0, 5 * S + 10);
    assert_eq!((open().method(), open().method().name()), (PhcMethod::Plain, "plain"));
    is_switched.set(false);
    assert_eq!(phc.read().unwrap().device_ns.0, 5 * S, "it latches again");
}

#[test]
fn a_file_that_is_no_such_clock_is_an_error() {
    assert!(PhcDevice::open(Path::new("/dev/null")).is_err());
    let missing = PhcDevice::open(Path::new("/dev/ptp999")).unwrap_err();
    assert_eq!(missing.kind(), io::ErrorKind::NotFound);
}

#[test]
fn a_trace_of_latched_pairs_is_read() {
    let phc = replayed("latched.txt");
    assert_eq!(phc.method(), PhcMethod::Precise);
    let readings: Vec<CrossTimestamp> =
        (0..12).map(|_| phc.read().unwrap().cross_timestamp).collect();
    // 1500 ns ahead at the start, and 40 ppm of the time since.
    for one in &readings {
        let since = one.realtime_ns.0 - 1_795_000_000_000_000_000;
        let ahead = one.shown_ns - one.realtime_ns.0;
        assert_eq!(ahead, 1500 + since * 40 / 1_000_000, "{one:?}");
        assert_eq!(one.raw_ns, Some(44_000_000_000 + since), "{one:?}");
    }
}

#[test]
fn a_trace_without_latching_is_read_around_the_device() {
    let phc = replayed("read_around.txt");
    assert_eq!(phc.method(), PhcMethod::Extended);
    for _ in 0..12 {
        let one = phc.read().unwrap().cross_timestamp;
        let (before, after) = one.realtime_ns;
        // Never the delayed sample.
        assert_eq!((after - before, one.raw_ns), (900, None), "{one:?}");
        assert_eq!(one.shown_ns - before, 37_000_000_450, "{one:?}");
    }
}
