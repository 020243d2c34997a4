//! What programs read: JSON by its published schema.

use std::fs;

use e2e::{Case, Need, Program, project};
use serde_json::{Deserializer, Value};

pub(crate) const CASES: &[Case] = &[
    Case { name: "json_keeps_to_its_schema", needs: &[], run: json_keeps_to_its_schema },
    Case { name: "lab_s_json_keeps_to_it", needs: &[Need::Kvm], run: lab_s_json_keeps_to_it },
    Case { name: "schemas_are_published", needs: &[], run: schemas_are_published },
];

/// Which schema each kind of output keeps to.
const OUTPUTS: &[(&str, &[&str])] = &[
    ("doctor", &["doctor", "--format", "json"]),
    ("doctor", &["doctor", "--no-measure", "--format", "json"]),
    ("bench", &["bench", "--duration", "100ms", "--format", "json"]),
    ("capture", &["capture", "--dry-run", "--format", "json"]),
    ("clocks", &["clocks", "--all", "--format", "json"]),
    ("drift", &["drift", "--duration", "300ms", "--interval", "20ms", "--format", "json"]),
    ("watch", &["watch", "--duration", "300ms", "--format", "json"]),
    ("lab", &["lab", "conformance", "--in-process", "--format", "json"]),
    ("lab", &["lab", "drift", "--in-process", "--duration", "2s", "--format", "json"]),
];

fn published(name: &str) -> Value {
    let path = project().join(format!("docs/schema/{name}.json"));
    let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    serde_json::from_str(&text).expect("a schema is JSON")
}

fn json_keeps_to_its_schema(program: &Program) {
    for (name, arguments) in OUTPUTS {
        let said = program.run(arguments);
        assert_eq!((said.code, said.err.as_str()), (Some(0), ""), "{arguments:?}");
        keeps_to(name, &said.out);
    }
    // Machines unlike this one have facts that it has not.
    let machines = fs::read_dir(project().join("testdata/machines")).expect("captured machines");
    for machine in machines.flatten().filter(|machine| machine.path().is_dir()) {
        let path = machine.path();
        let root = path.to_str().expect("UTF-8");
        for command in ["doctor", "clocks"] {
            let said = program.run(&[command, "--format", "json", "--root", root]);
            // Without any clock source there is nothing to list.
            assert!(matches!(said.code, Some(0 | 2)), "{command} {root}: {}", said.err);
            keeps_to(command, &said.out);
        }
    }
}

/// All experiments; on a busy machine a check may fail.
fn lab_s_json_keeps_to_it(program: &Program) {
    let quick = ["--duration", "1s", "--away", "200ms", "--reads", "100000"];
    let said = program.run(&[&["lab", "--format", "json"], &quick[..]].concat());
    assert!(matches!(said.code, Some(0 | 1)), "{}", said.err);
    keeps_to("lab", &said.out);
}

/// One document, or one a line: each must keep to the schema.
pub(crate) fn keeps_to(name: &str, documents: &str) {
    let validator = jsonschema::validator_for(&published(name)).expect("a schema that is one");
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

fn schemas_are_published(program: &Program) {
    for entry in fs::read_dir(project().join("docs/schema")).expect("docs/schema").flatten() {
        let name = entry.file_name().into_string().expect("UTF-8");
        let name = name.strip_suffix(".json").expect("docs/schema holds schemas");
        let said = program.run(&["schema", name]);
        assert_eq!(said.code, Some(0), "{name}: {}", said.err);
        let printed: Value = serde_json::from_str(&said.out).expect("JSON");
        assert!(printed == published(name), "{name} is stale: run `cargo xtask docs`");
    }
}
