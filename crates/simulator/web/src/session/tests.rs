use serde_json::{Value, json};

use super::*;

fn ask(session: &mut PageSession, request: &Value) -> Vec<u8> {
    session.answer(request.to_string().as_bytes())
}

fn asked(session: &mut PageSession, request: &Value) -> Value {
    serde_json::from_slice(&ask(session, request)).unwrap()
}

fn start(session: &mut PageSession, name: &str, guests: u64) -> Value {
    let known = asked(session, &json!({ "ask": "scenarios" }));
    let found = known.as_array().unwrap().iter().find(|it| it["name"] == name).unwrap();
    let start = json!({ "ask": "start", "text": found["text"], "guests": guests, "seed": "7" });
    asked(session, &start)
}

/// Whatever the shares, the report is that of the whole fleet.
#[test]
fn shares_make_the_report_of_the_whole() {
    let mut session = PageSession::default();
    let started = start(&mut session, "migration-night", 10);
    assert_eq!((&started["guests"], &started["seed"]), (&json!(10), &json!(Seed(7).to_string())));
    for (asks, gets) in [(3, 3), (4, 4), (100, 3), (1, 0)] {
        let reply = ask(&mut session, &json!({ "ask": "run", "discipline": 0, "guests": asks }));
        assert_eq!(reply.len(), gets * BANDS * 4);
    }
    let report = ask(&mut session, &json!({ "ask": "report" }));

    let text = BUILT_IN.iter().find(|(name, _)| *name == "migration-night").unwrap().1;
    let scenario = file::read(text).unwrap();
    let of = Of::new(&scenario, Some(10), None, Some(7));
    let span_ns = scenario.check(10, of.days).unwrap();
    let corrector = scenario.disciplines[0];
    let fleet = Simulation::new(&scenario, corrector, 7, span_ns).guests(0..10, || true);
    let whole = SimulateReport::new(&scenario, &of, [(corrector, &fleet)]);
    let whole = serde_json::to_string_pretty(&whole).unwrap() + "\n";
    assert_eq!(String::from_utf8(report).unwrap(), whole);
}

#[test]
fn a_story_tells_each_event_and_how_it_ended() {
    let mut session = PageSession::default();
    start(&mut session, "migration-night", 2);
    let story = asked(&mut session, &json!({ "ask": "story", "discipline": 0, "guest": 1 }));
    let events = story["events"].as_array().unwrap();
    assert_eq!(events[0]["kind"], Value::Null);
    let moves: Vec<&Value> = events.iter().filter(|it| it["kind"] == "migrate").collect();
    assert_eq!(moves.len(), 2, "{events:#?}");
    for event in moves {
        // The clock stood while it was away, and was set right by a step.
        let figure = |name: &str| event[name].as_f64().unwrap();
        assert!((figure("after_s") - figure("before_s") + figure("away_s")).abs() < 1e-3);
        assert_eq!(event["was_wrong"], figure("away_s") > 0.015);
        let by_s = event["steps"][0][1].as_f64().unwrap();
        assert!((by_s + figure("after_s")).abs() < 0.02, "{event:#?}");
        assert!(event["right_after_s"].as_f64().unwrap() < 70.0);
        // Slews move the clock too, by less than is right.
        let steps = event["steps"].as_array().unwrap();
        assert!(steps.iter().all(|step| step[1].as_f64().unwrap().abs() > 0.015), "{event:#?}");
    }
    assert_eq!(story["line"].as_array().unwrap().len(), 1000);

    start(&mut session, "leap-second", 1);
    let story = asked(&mut session, &json!({ "ask": "story", "discipline": 0, "guest": 0 }));
    let events = story["events"].as_array().unwrap();
    assert_eq!(events.iter().filter(|it| it["kind"] == "leap-second").count(), 1, "{events:#?}");
}

#[test]
fn what_cannot_be_is_refused_with_its_line() {
    let mut session = PageSession::default();
    let mut refused = |request: Value| {
        let reply = asked(&mut session, &request);
        (reply["refused"].as_str().unwrap().to_owned(), reply["line"].as_u64())
    };
    let start = |text: &str| json!({ "ask": "start", "text": text });
    for (text, line) in [
        ("name = 'x'\nspeed = 3\n", Some(2)),
        ("name = 'x'\n\n[[fault]]\nkind = 'pause'\n", Some(3)),
        ("name = 'x'\nguests = 1000000\n", None),
        ("name = 'x'\ndays = 0.0\n", None),
    ] {
        let (why, found) = refused(start(text));
        assert_eq!(found, line, "{text}: {why}");
    }
    let run = json!({ "ask": "run", "discipline": 0, "guests": 1 });
    assert_eq!(refused(run).0, "nothing was started");
    for request in [
        json!({ "ask": "start", "text": "name = 'x'", "seed": "-1" }),
        json!({ "ask": "start", "text": "name = 'x'", "seed": "7v1" }),
        json!({ "ask": "moon" }),
        json!(3),
    ] {
        refused(request);
    }
    assert_eq!(asked(&mut session, &start("name = 'x'"))["name"], "x");
    for request in [
        json!({ "ask": "run", "discipline": 1, "guests": 1 }),
        json!({ "ask": "story", "discipline": 0, "guest": 1000 }),
    ] {
        assert!(asked(&mut session, &request)["refused"].is_string(), "{request}");
    }
}
