//! A device that repeats recorded answers.

use std::cell::RefCell;

use super::super::*;

pub(super) fn time(sec: i64, nsec: u32) -> ptp_clock_time {
    ptp_clock_time { sec, nsec, reserved: 0 }
}

/// A device of `testdata/phc`: each request is answered by the next line; the
/// first reply to a call is given twice, as one call only probes for it.
#[derive(Debug)]
struct Trace {
    lines: RefCell<Vec<String>>,
    asked: RefCell<bool>,
}

/// The device of that file.
pub(super) fn replayed(name: &str) -> PhcDevice {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/phc").join(name);
    let text = std::fs::read_to_string(file).unwrap();
    let lines = text.lines().rev().map(str::to_owned).collect();
    let trace = Trace { lines: RefCell::new(lines), asked: RefCell::new(false) };
    PhcDevice::over(Box::new(trace)).unwrap()
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
