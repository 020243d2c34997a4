//! What programs read: JSON by the schema that the program prints.

use std::collections::BTreeMap;
use std::fs;
use std::sync::{Arc, Mutex, PoisonError};

use crate::need::Need;
use crate::program::{Program, project, shared};
use jsonschema::Validator;
use serde_json::{Deserializer, Value};

/// Which schema each kind of output keeps to.
const OUTPUTS: &[(&str, &[&str])] = &[
    ("doctor", &["doctor", "--format", "json"]),
    ("doctor", &["doctor", "--no-measure", "--format", "json"]),
    ("bench", &["bench", "--duration", "100ms", "--format", "json"]),
    ("capture", &["capture", "--dry-run", "--format", "json"]),
    ("bench", &["bench", "--list", "--all", "--format", "json"]),
    ("drift", &["drift", "--duration", "300ms", "--interval", "20ms", "--format", "json"]),
    ("watch", &["watch", "--duration", "300ms", "--format", "json"]),
    ("export", &["export", "--format", "json"]),
];

/// Asserts that the program names it as well.
fn schema(program: &Program, name: &str) -> Value {
    let said = program.run(&["schema", name]);
    assert_eq!(said.code, Some(0), "{name}: {}", said.err);
    serde_json::from_str(&said.out).expect("a schema is JSON")
}

#[test]
fn json_keeps_to_its_schema() {
    let Some(program) = &shared(&[]) else { return };
    for (name, arguments) in OUTPUTS {
        let said = program.run(arguments);
        assert_eq!((said.code, said.err.as_str()), (Some(0), ""), "{arguments:?}");
        keeps_to(program, name, &said.out);
    }
    // Machines unlike this one have facts that it has not.
    let machines = fs::read_dir(project().join("testdata/machines")).expect("captured machines");
    for machine in machines.flatten().filter(|machine| machine.path().is_dir()) {
        let path = machine.path();
        let root = path.to_str().expect("UTF-8");
        for command in [&["doctor"][..], &["bench", "--list"]] {
            let said = program.run(&[command, &["--format", "json", "--root", root]].concat());
            // Without any clock source there is nothing to list.
            assert!(matches!(said.code, Some(0 | 2)), "{command:?} {root}: {}", said.err);
            keeps_to(program, command[0], &said.out);
        }
    }
}

/// All experiments; on a busy machine a check may fail, or an experiment measure nothing.
#[test]
fn lab_s_json_keeps_to_it() {
    let Some(program) = &shared(&[Need::Kvm]) else { return };
    let quick = ["--duration", "1s", "--downtime", "200ms", "--reads", "100000"];
    let said = program.run(&[&["lab", "--format", "json"], &quick[..]].concat());
    assert!(matches!(said.code, Some(0..=2)), "{}", said.err);
    keeps_to(program, "lab", &said.out);
}

/// One document, or one a line: each must keep to the schema.
pub(crate) fn keeps_to(program: &Program, name: &str, documents: &str) {
    // Made once: making one takes longer than what it is for.
    static VALIDATORS: Mutex<BTreeMap<String, Arc<Validator>>> = Mutex::new(BTreeMap::new());
    let made = || jsonschema::validator_for(&schema(program, name)).expect("a schema that is one");
    let validator = {
        let mut validators = VALIDATORS.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(validators.entry(name.to_owned()).or_insert_with(|| Arc::new(made())))
    };
    let mut read = 0;
    for document in Deserializer::from_str(documents).into_iter::<Value>() {
        let document = document.expect("JSON");
        let errors: Vec<String> = validator
            .iter_errors(&document)
            .map(|error| format!("{} at {}", error, error.instance_path()))
            .collect();
        assert!(errors.is_empty(), "{name}: {errors:#?}");
        read += 1;
    }
    assert!(read > 0, "{name}: nothing was printed");
    assert!(!validator.is_valid(&Value::Null), "a schema that nothing can break");
}

/// Named by the help, so that a reader finds it.
#[test]
fn schemas_are_named() {
    let Some(program) = &shared(&[]) else { return };
    let commands = ["doctor", "bench", "capture", "drift", "watch", "keep", "lab"];
    let listed = program.run(&["schema", "--help"]).out;
    for command in commands {
        assert!(schema(program, command).is_object(), "{command}");
        assert!(listed.contains(&format!("- {command}:")), "{command}: {listed}");
        let help = program.run(&[command, "--help"]).out;
        assert!(help.contains("parachron schema"), "{command}: {help}");
    }
}
