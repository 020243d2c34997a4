"""The manifests and the Ansible roles, judged by programs that are not ours.

`cargo xtask manifests` starts it. Kubernetes' own schemas judge the DaemonSet, the schemas of
Prometheus' operator the PodMonitor and the rules, and ansible-playbook applies each role twice:
the second run must change nothing. A misspelt key must be refused by each schema, so that a
schema which accepts anything is noticed. The role that installs a package runs in a copy of this
machine's files, which ends with it; no service is started there.
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
ACTIONLINT = "github.com/rhysd/actionlint/cmd/actionlint@v1.7.7"

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


# ---------------------------------------------------------------- The release


def workflow():
    """The forge's workflow, by actionlint."""
    if shutil.which("go") is None:
        return skipped("no go, which builds actionlint", "apt-get install golang-go")
    probe = subprocess.run(["go", "run", ACTIONLINT, "-version"], capture_output=True, text=True)
    if probe.returncode != 0:
        return skipped(f"no {ACTIONLINT}", "a machine that reaches a Go module proxy")
    text = (HERE.parent / ".github/workflows/release.yml").read_text()
    for what, text, code in (
        ("the workflow", text, 0),
        ("the workflow with a misspelt key", text.replace("runs-on", "run-on"), 1),
    ):
        lint = ["go", "run", ACTIONLINT, "-"]
        run = subprocess.run(lint, input=text, capture_output=True, text=True)
        why = None if run.returncode == code else run.stdout or "it is accepted"
        judge(f"{what}, by actionlint", why)


# ---------------------------------------------------------------- Ansible


def playbook(name, settings):
    """The command that runs a playbook on this machine."""
    variables = {
        "ansible_become": False,
        "ansible_python_interpreter": sys.executable,
        **settings,
    }
    play = [pathlib.Path(sys.prefix) / "bin/ansible-playbook", "-i", "localhost,", "-c", "local"]
    return [*play, HERE / "ansible" / name, "-e", json.dumps(variables)]


def environment():
    """Ansible refuses a locale that is not UTF-8."""
    ours = {"ANSIBLE_STDOUT_CALLBACK": "ansible.builtin.default", "LC_ALL": "C.UTF-8"}
    return {key: value for key, value in {**os.environ, **ours}.items() if key != "ANSIBLE_CONFIG"}


def verdict(run, changed):
    """What is wrong with a run that was to change something, or nothing."""
    last = run.stdout.strip().splitlines()[-1:] or [run.stderr.strip()]
    right = run.returncode == 0 and ("changed=0" not in last[0]) == changed
    return None if right else last[0]


def remedies(program, folder):
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
        "parachron_remedies_program": str(doctor),
        "parachron_remedies_chrony_folder": str(chrony),
        "parachron_remedies_now": False,
    }
    play = playbook("apply.yml", settings)
    for turn, changed in (("first", True), ("second", False)):
        run = subprocess.run(play, capture_output=True, text=True, env=environment())
        judge(f"the remedies, {turn} run", verdict(run, changed))
    shown = "no time daemon" in run.stdout or "warning: " in run.stdout or "note: " in run.stdout
    judge("the findings that remain", None if shown else "none is shown")
    written = chrony / "parachron.conf"
    lines = written.read_text().splitlines() if written.exists() else []
    judge("the role's lines", None if lines == LINES else f"{lines}, not {LINES}")


# Beside this machine's files, so that nothing reaches them: the copy is in memory.
SANDBOX = """
mount -t tmpfs none "$1" && mkdir "$1/upper" "$1/work" "$1/root" || exit 99
mount -t overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" none "$1/root" || exit 99
mount --rbind /proc "$1/root/proc" && mount --rbind /dev "$1/root/dev" || exit 99
sandbox=$1
shift
exec chroot "$sandbox/root" "$@"
"""

# What is run in the copy: the role's four runs, and a line with the result of each.
RUNS = """
import json, pathlib, subprocess, sys
for name, play in json.loads(sys.argv[1]):
    run = subprocess.run(play, capture_output=True, text=True)
    lines = run.stdout.strip().splitlines()
    path = pathlib.Path("/etc/parachron/parachrond.toml")
    written = path.read_text() if path.exists() else ""
    wants = pathlib.Path("/etc/systemd/system/multi-user.target.wants/parachrond.service")
    print(json.dumps([name, run.returncode, (lines or [run.stderr])[-1], written,
                      wants.is_symlink(), run.stdout]))
"""


def package(program, folder):
    """A package with what the role needs; `cargo xtask dist` makes the real one."""
    tree = folder / "package"
    shutil.rmtree(tree, ignore_errors=True)
    for source, place in (
        (program, "usr/bin/parachrond"),
        (HERE / "parachrond.service", "usr/lib/systemd/system/parachrond.service"),
        (HERE / "parachrond.toml", "etc/parachron/parachrond.toml"),
    ):
        (tree / place).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, tree / place)
    (tree / "DEBIAN").mkdir()
    (tree / "DEBIAN/conffiles").write_text("/etc/parachron/parachrond.toml\n")
    (tree / "DEBIAN/control").write_text(
        "Package: parachrond\nVersion: 0.0.1\nArchitecture: all\n"
        "Maintainer: nobody <nobody@localhost.invalid>\nDescription: for a test\n"
    )
    file = folder / "parachrond.deb"
    subprocess.run(["dpkg-deb", "-Znone", "--build", tree, file], check=True, capture_output=True)
    return file


def daemon(program, folder):
    """Installs, configures and enables the daemon in a copy of this machine's files."""
    needs = [shutil.which("systemctl"), pathlib.Path("/usr/lib/python3/dist-packages/apt").exists()]
    if os.geteuid() != 0 or not all(needs):
        remedy = "sudo apt-get install systemd python3-apt"
        return skipped("installing needs root, systemctl and python3-apt", remedy)
    settings = {
        "parachrond_packages": [str(package(program, folder))],
        "parachrond_settings": {"ntp": ["192.0.2.1", "192.0.2.2"], "dry-run": True},
    }
    wrong = {**settings, "parachrond_settings": {"recrods": "/var/lib/parachron"}}
    runs = [
        ("check", [*playbook("install.yml", settings), "--check"]),
        ("first", playbook("install.yml", settings)),
        ("second", playbook("install.yml", settings)),
        ("a wrong key", playbook("install.yml", wrong)),
    ]
    given = json.dumps([(name, [str(word) for word in play]) for name, play in runs])
    sandbox = folder / "sandbox"
    sandbox.mkdir(exist_ok=True)
    command = ["unshare", "--mount", "sh", "-c", SANDBOX, "sh", sandbox]
    command += [sys.executable, "-c", RUNS, given]
    # No service manager runs there: systemctl only enables.
    offline = {**environment(), "SYSTEMD_OFFLINE": "1"}
    run = subprocess.run(command, capture_output=True, text=True, env=offline)
    if run.returncode == 99:
        why = f"no copy of this machine's files: {run.stderr.strip()}"
        return skipped(why, "a machine with overlayfs")
    results = {}
    for line in run.stdout.splitlines():
        name, code, last, written, enabled, output = json.loads(line)
        results[name] = (code, last, written, enabled, output)
    wanted = 'dry-run = true\nntp = ["192.0.2.1", "192.0.2.2"]\n'
    expected = {"check": (0, True), "first": (0, True), "second": (0, False), "a wrong key": (2, False)}
    for name, (code, changes) in expected.items():
        got = results.get(name, (None, run.stderr, "", False, ""))
        right = got[0] == code and (code != 0 or ("changed=0" not in got[1]) == changes)
        judge(f"the daemon, {name}", None if right else "\n".join(map(str, got)))
    judge("the daemon's configuration", None if got[2].endswith(wanted) else f"{got[2]!r}")
    judge("the daemon's service is enabled", None if got[3] else "it is not")
    named = 'nearest: "records"' in got[4].replace("\\", "")
    judge("the wrong key is named", None if named else got[4])


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--target", type=pathlib.Path, required=True)
    options.add_argument("--program", type=pathlib.Path, required=True)
    arguments = options.parse_args()
    manifests(arguments.program.absolute())
    workflow()
    remedies(arguments.program.absolute(), arguments.target.absolute())
    daemon(arguments.program.absolute().with_name("parachrond"), arguments.target.absolute())
    print("manifests: " + ", ".join(f"{number} {how}" for how, number in results.items()))
    sys.exit(results["failed"] > 0)


main()
