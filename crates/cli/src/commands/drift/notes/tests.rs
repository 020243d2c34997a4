use inspect::comparison::ClockName;
use sources::phc::PhcScale;

use super::*;

fn stepped(by_ns: f64, or_reference: Option<&str>) -> String {
    let or_reference = or_reference.map(str::to_owned);
    sentence(&Note::ClockStepped { clock: ClockName::Monotonic, by_ns, at_s: 30.0, or_reference })
}

#[test]
fn a_step_is_stated_with_its_size_and_time() {
    let reference = "phc /dev/ptp0".to_owned();
    let note = Note::ReferenceStepped { reference, clocks: 2, by_ns: -7e6, at_s: 30.0 };
    assert_eq!(
        sentence(&note),
        "All 2 clocks stepped together against phc /dev/ptp0 at 30.0 s: \
         the reference stepped by -7.00 ms, not the clocks."
    );
    let or_it = Some("phc /dev/ptp0");
    assert_eq!(
        stepped(7e6, or_it),
        "monotonic went forward by 7.00 ms at 30.0 s, or phc /dev/ptp0 back."
    );
    assert_eq!(stepped(-9e6, None), "monotonic was set back by 9.00 ms at 30.0 s.");
    assert_eq!(
        stepped(-9e6, or_it),
        "monotonic was set back by 9.00 ms at 30.0 s, or phc /dev/ptp0 forward."
    );
}

#[test]
fn readings_that_are_left_out_are_counted() {
    let left_out = |readings, why| {
        let (clock, reference) = (ClockName::Monotonic, "ntp 192.0.2.1".to_owned());
        sentence(&Note::LeftOut { clock, reference, readings, why })
    };
    assert_eq!(
        left_out(31, Refused::BeforeStart { by_ns: 3_540_000_000_000 }),
        "monotonic against ntp 192.0.2.1: 31 readings left out: the reference went back, to 59.0 \
         min before the start."
    );
    let one = left_out(1, Refused::WentBack { by_ns: 5 });
    assert!(
        one.ends_with(": 1 reading left out: a clock went back by 5.00 ns while it was compared.")
    );
}

fn scale(reference: &str, seems: Seems) -> String {
    sentence(&Note::ReferenceScale { reference: reference.into(), off_ns: 37e9, seems })
}

#[test]
fn a_clock_that_seems_to_count_something_else_comes_with_advice() {
    let card = |scale_| Seems::UnspecifiedTai { device: "/dev/ptp1".into(), scale: scale_ };
    assert_eq!(
        scale("phc /dev/ptp1", card(PhcScale::Tai)),
        "phc /dev/ptp1 is 37.0 s ahead of realtime, the difference between TAI and UTC: if it \
         counts TAI, like a network card's clock that ptp4l sets, `--phc /dev/ptp1,tai` subtracts that."
    );
    let by_number = scale("phc /dev/ptp1", card(PhcScale::TaiBy(37)));
    assert!(by_number.ends_with("`--phc /dev/ptp1,tai=37` subtracts that."), "{by_number}");
    let utc = scale("phc /dev/ptp1 utc", Seems::Tai);
    assert!(utc.starts_with("phc /dev/ptp1 utc is 37.0 s ahead of realtime, the"), "{utc}");
    assert!(utc.ends_with("it counts TAI, or realtime is wrong by that much."), "{utc}");
    let tai = scale("phc /dev/ptp1 tai=37", Seems::Utc);
    assert!(tai.contains("37.0 s behind realtime, the difference between TAI and UTC: it counts"));
    let behind = scale("kvm /dev/ptp0", Seems::BehindUtc);
    let end = "37.0 s behind realtime, the difference between TAI and UTC: one of the two is wrong \
               by that much.";
    assert!(behind.ends_with(end), "{behind}");
    let clock = sentence(&Note::ClockScale { reference: "ntp 192.0.2.1".into(), off_ns: 37e9 });
    assert!(clock.starts_with("phc is 37.0 s ahead of ntp 192.0.2.1, the"), "{clock}");
}

#[test]
fn a_run_that_is_too_short_for_the_rtc_shows_how_long_it_takes() {
    let reference = "raw".to_owned();
    let note = Note::TooShort { reference, over_s: 4.0, within_ppm: 10_417.3, needed_min: 7 };
    assert_eq!(
        sentence(&note),
        "rtc against raw: ± 10417 ppm after 4 s, too short for a clock that is read once a \
         second: try --duration 7m."
    );
}
