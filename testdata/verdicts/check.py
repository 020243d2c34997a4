#!/usr/bin/env python3
"""Recomputes the size and sign of each case from its counters, and compares them with its
truth. Shares nothing with Parachron. Usage: python3 check.py (exit code 1 on a difference)."""
import pathlib
import re
import sys

RATES = {"acpi_pm": 3579545.0, "kvm-clock": 1e9, "xen": 1e9, "hyperv_clocksource_tsc_page": 1e7}
WRAP_NS = 2**24 / 3579545 * 1e9


def fields(text):
    truth, lines = {}, []
    for line in text.splitlines():
        key = re.match(r"# (\w+): (.*)", line)
        if key and not lines:
            truth[key[1]] = key[2]
        else:
            lines.append(line)
    return truth, lines


def counter(lines, kind):
    for line in lines:
        found = re.search(
            rf"'([\w-]+)' (?:{kind}_n\w+: (\d+) )?{kind}_now: (\w+) {kind}_last: (\w+) mask: (\w+)", line
        )
        if found:
            name, ns, now, last, mask = found.groups()
            ticks = (int(now, 16) - int(last, 16)) & int(mask, 16)
            return name, None if ns is None else int(ns), ticks, int(mask, 16)
    return None


def check(truth, lines):
    text = "\n".join(lines)
    wd, cs = counter(lines, "wd"), counter(lines, "cs")
    wrong = []

    def same(what, found, stated, slack):
        if abs(found - stated) > slack:
            wrong.append(f"{what}: {found:.0f}, stated {stated:.0f}")

    if "skew_ns" in truth:
        stated = int(truth["skew_ns"])
        delta = re.search(r"delta = (-?\d+) ns", text)
        if delta:
            same("delta", int(delta[1]), stated, 0)
        elif wd and cs and wd[1] is not None and cs[1] is not None:
            same("cs_nsec - wd_nsec", cs[1] - wd[1], stated, 0)
        else:
            wrong.append("no figures for skew_ns")
        if truth["cause"] == "wrap":
            times = round(stated / WRAP_NS)
            same(f"{times} wraps", times * WRAP_NS, stated, 12e6 * max(times, 1))
    if "reference_ns" in truth:
        hz = float(truth.get("hpet_hz", RATES.get(wd[0], 0)))
        same("reference", wd[2] / hz * 1e9, int(truth["reference_ns"]), 1000)
    if "cycles" in truth:
        same("warp", int(re.search(r"Measured (\d+) cycles", text)[1]), int(truth["cycles"]), 0)
    # What the kernel computed fits its own counters.
    if wd and wd[1] and wd[0] in RATES:
        same("wd_nsec by its ticks", wd[2] / RATES[wd[0]] * 1e9, wd[1], wd[1] * 1e-3)
    if cs and cs[1] and truth["cause"] != "damaged":
        hz = cs[2] / cs[1] * 1e9
        if not 0.2e9 < hz < 10e9:
            wrong.append(f"the TSC ran at {hz:.0f} Hz")
    if truth["cause"] == "backward" and cs:
        now, last = re.search(r"cs_now: (\w+) cs_last: (\w+)", text).groups()
        if int(now, 16) >= int(last, 16):
            wrong.append("the TSC is not behind")
    if truth["cause"] == "late-discarded" and wd[2] <= wd[3] >> 1:
        wrong.append("the reference counted less than half of its range")
    return wrong


def main():
    folder = pathlib.Path(__file__).parent
    failed = 0
    cases = sorted(folder.glob("*.log"))
    for path in cases:
        for line in check(*fields(path.read_text(encoding="utf-8"))):
            failed += 1
            print(f"{path.name}: {line}")
    print(f"{len(cases)} cases, {failed} differences")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
