"""The manifests and the Ansible role, judged by programs that are not ours.

`cargo xtask manifests` starts it. Kubernetes' own schemas judge the DaemonSet, the schemas of
Prometheus' operator the PodMonitor and the rules, and ansible-playbook applies the role twice:
the second run must change nothing. A misspelt key must be refused by each schema, so that a
schema which accepts anything is noticed.
"""

import argparse
import copy
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
OPERATOR = "github.com/prometheus-operator/prometheus-operator@v0.85.0"

# A captured machine with chrony, and what doctor's first remedies add to its configuration.
MACHINE = HERE.parent / "testdata/machines/restored-chrony-by-ntp"
LINES = ["makestep 1 -1", "refclock PHC /dev/ptp0 poll 3 dpoll -2 offset 0"]

results = {"passed": 0, "failed": 0, "skipped": 0}


def judge(what, why):
    """Counts a check; `why` says what is wrong, and is None where nothing is."""
    results["failed" if why else "passed"] += 1
    print(f"{'FAILED' if why else 'ok':<7}{what}{f': {why}' if why else ''}")


def skipped(why, remedy):
    results["skipped"] += 1
    print(f"SKIPPED: {why}; try: {remedy}")


# ---------------------------------------------------------------- Kubernetes


def misspelt(document, path):
    """The same with the last key of the path misspelt."""
    wrong = copy.deepcopy(document)
    place = wrong
    for key in path[:-1]:
        place = place[key]
    place[path[-1] + "x"] = place.pop(path[-1])
    return wrong


def by_kubernetes(document):
    import kubernetes_validate as kubernetes

    try:
        kubernetes.validate(document, kubernetes.latest_version(), strict=True)
    except kubernetes.ValidationError as error:
        return error.message
    return None


def strict(schema):
    """The same schema, which refuses a key that it does not name."""
    if isinstance(schema, list):
        return [strict(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    schema = {key: strict(value) for key, value in schema.items()}
    keeps = schema.get("x-kubernetes-preserve-unknown-fields")
    if isinstance(schema.get("properties"), dict) and schema.get("type") == "object" and not keeps:
        schema.setdefault("additionalProperties", False)
    return schema


def operator_folder():
    """The operator's schemas, as its Go module has them."""
    if shutil.which("go") is None:
        return skipped("no go, which has the operator's schemas", "apt-get install golang-go")
    with tempfile.TemporaryDirectory() as module:
        (pathlib.Path(module) / "go.mod").write_text("module schemas\n")
        go = ["go", "mod", "download", "-json", OPERATOR]
        run = subprocess.run(go, cwd=module, capture_output=True, text=True)
    if run.returncode != 0:
        return skipped(f"no {OPERATOR}", "a machine that reaches a Go module proxy")
    return pathlib.Path(json.loads(run.stdout)["Dir"]) / "jsonnet/prometheus-operator"


def by_operator(folder, name, document):
    import jsonschema

    versions = json.loads((folder / f"{name}-crd.json").read_text())["spec"]["versions"]
    schema = strict(versions[0]["schema"]["openAPIV3Schema"])
    # What each object has; the schema of a resource leaves it open.
    schema["properties"]["metadata"].pop("additionalProperties", None)
    errors = jsonschema.Draft202012Validator(schema).iter_errors(document)
    error = next(iter(errors), None)
    return error and f"{error.json_path}: {error.message}"


def manifests(program):
    import yaml

    read = lambda name: list(yaml.safe_load_all((HERE / "kubernetes" / name).read_text()))
    (daemon_set, config_map), (monitor,) = read("daemonset.yaml"), read("podmonitor.yaml")
    head = {"apiVersion": "monitoring.coreos.com/v1", "kind": "PrometheusRule"}
    spec = yaml.safe_load((HERE / "alerts.yml").read_text())
    rules = {**head, "metadata": {"name": "parachron"}, "spec": spec}
    judged = [
        (by_kubernetes, daemon_set, ["spec", "template", "spec", "containers"]),
        (by_kubernetes, config_map, ["data"]),
    ]
    if folder := operator_folder():
        of = lambda name: lambda document: by_operator(folder, name, document)
        judged.append((of("podmonitors"), monitor, ["spec", "podMetricsEndpoints"]))
        judged.append((of("prometheusrules"), rules, ["spec", "groups", 0, "rules", 0, "expr"]))
    for why, document, path in judged:
        judge(f"{document['kind']} by its schema", why(document))
        refused = why(misspelt(document, path)) is not None
        judge(f"{document['kind']} with a misspelt key", None if refused else "it is accepted")


# ---------------------------------------------------------------- Ansible


def role(program, folder):
    """Applies the role twice, in a folder instead of chrony's, to a captured machine."""
    if not pathlib.Path("/etc/debian_version").exists():
        return skipped("except on Debian, the role writes outside its folder", "a Debian machine")
    if os.geteuid() != 0:
        return skipped("the role gives its file to root", "sudo")
    doctor, chrony = folder / "doctor", folder / "chrony"
    shutil.rmtree(chrony, ignore_errors=True)
    chrony.mkdir(parents=True)
    doctor.write_text(f'#!/bin/sh\nexec "{program}" "$@" --root "{MACHINE}"\n')
    doctor.chmod(0o755)
    settings = {
        "ansible_become": False,
        "ansible_python_interpreter": sys.executable,
        "parachron_remedies_program": str(doctor),
        "parachron_remedies_chrony_folder": str(chrony),
        "parachron_remedies_now": False,
    }
    play = [pathlib.Path(sys.prefix) / "bin/ansible-playbook", "-i", "localhost,", "-c", "local"]
    play += [HERE / "ansible/apply.yml", "-e", json.dumps(settings)]
    # Ansible refuses a locale that is not UTF-8.
    environment = {
        **os.environ,
        "ANSIBLE_STDOUT_CALLBACK": "ansible.builtin.default",
        "LC_ALL": "C.UTF-8",
    }
    environment.pop("ANSIBLE_CONFIG", None)
    for turn, changed in (("first", True), ("second", False)):
        run = subprocess.run(play, capture_output=True, text=True, env=environment)
        last = run.stdout.strip().splitlines()[-1:] or [run.stderr.strip()]
        right = run.returncode == 0 and ("changed=0" not in last[0]) == changed
        judge(f"the role, {turn} run", None if right else last[0])
    written = chrony / "parachron.conf"
    lines = written.read_text().splitlines() if written.exists() else []
    judge("the role's lines", None if lines == LINES else f"{lines}, not {LINES}")


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--target", type=pathlib.Path, required=True)
    options.add_argument("--program", type=pathlib.Path, required=True)
    arguments = options.parse_args()
    manifests(arguments.program.absolute())
    role(arguments.program.absolute(), arguments.target.absolute())
    print("manifests: " + ", ".join(f"{number} {how}" for how, number in results.items()))
    sys.exit(results["failed"] > 0)


main()
