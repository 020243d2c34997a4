#!/usr/bin/env python3
"""Recompute size and sign of every case from its log lines.

Shares nothing with Parachron. Needs Python 3.11 and no package.
Prints counts and exits 1 when a case disagrees with its truth.
"""
import re
import sys
import tomllib
from pathlib import Path

CAUSES = set("""boot-calibration-failed check-late clocks-agree daemon-no-majority
forced-by-test guest-paused host-slept host-tsc-unstable interrupt-late not-knowable
nothing-wrong rate-beyond-daemon read-delayed reference-jumped reference-lost-ticks
reference-stopped reference-wrapped reference-wrong rtc-wrong stepped-by-daemon
stepped-by-hypervisor tsc-halts-in-idle tsc-jumped tsc-rate-or-offset tsc-rate-varies
tsc-rate-wrong two-daemons unsynchronised warp-between-cpus went-backwards""".split())
BLAMES = {"guest", "host", "reference", "daemon", "hardware", "unknown"}
HYPERVISORS = set("""acrn bhyve emulator hyper-v hyperkit kvm none parallels qemu unknown
virtualbox vmware xen""".split())


def counters(text, letter):
    """Ticks between two reads of a counter, and the counter's mask."""
    found = re.search(
        rf"{letter}_now:? ?([0-9a-f]+) {letter}_last:? ?([0-9a-f]+)(?: mask:? ?(f+))?", text)
    if not found:
        return None
    now, last = int(found[1], 16), int(found[2], 16)
    mask = int(found[3], 16) if found[3] else (1 << 64) - 1
    if now > mask or last > mask:  # the mask is cut at the end of the line
        mask = (1 << 64) - 1 if letter == "cs" else (1 << 32) - 1
    return (now - last) & mask, mask


def number(pattern, text):
    found = re.search(pattern, text)
    return int(found[1]) if found else None


class Case:
    def __init__(self, folder):
        self.name = folder.name
        self.case = tomllib.loads((folder / "case.toml").read_text())
        self.truth = self.case["truth"]
        raw = (folder / "log.txt").read_text()
        self.text = re.sub(r"\s+", " ", raw)
        self.faults = []
        self.sums = 0

    def fault(self, words):
        self.faults.append(f"{self.name}: {words}")

    def compare(self, what, signed, tolerance):
        """Hold a signed number of nanoseconds against the truth."""
        self.sums += 1
        if "size_ns" not in self.truth:
            return
        want = self.truth["sign"] * self.truth["size_ns"]
        if self.truth["sign"] == 0:
            want = 0
            tolerance = max(tolerance, self.truth["size_ns"])
        if abs(signed - want) > tolerance:
            self.fault(f"{what} is {signed:.0f} ns, the truth {want} ns, tolerance {tolerance:.0f} ns")

    def form(self):
        for key in ("source", "known", "kernel", "hypervisor", "arch", "half"):
            if not self.case.get(key):
                self.fault(f"{key} is missing")
        for key in ("cause", "sign", "blame", "remedy", "why"):
            if key not in self.truth:
                self.fault(f"truth.{key} is missing")
        if self.truth["cause"] not in CAUSES:
            self.fault(f"cause {self.truth['cause']} is not in the list")
        if self.truth["blame"] not in BLAMES:
            self.fault(f"blame {self.truth['blame']} is not in the list")
        if self.case["hypervisor"] not in HYPERVISORS:
            self.fault(f"hypervisor {self.case['hypervisor']} is not in the list")
        if self.case["half"] not in ("first", "second"):
            self.fault("half is neither first nor second")
        if self.truth["sign"] not in (-1, 0, 1):
            self.fault("sign is not -1, 0 or 1")

    def watchdog(self):
        clock, watch = counters(self.text, "cs"), counters(self.text, "wd")
        clock_ns = number(r"\bcs_n[es]\w+: ?(-?\d+)", self.text)
        watch_ns = number(r"\bwd_n[es]\w+: ?(-?\d+)", self.text)
        clock_hz, watch_hz = self.case.get("cs_hz"), self.case.get("wd_hz")
        tolerance = self.truth.get("tolerance_ns")
        self.third_clock(clock_ns)
        raw_clock = clock[0] / clock_hz * 1e9 if clock and clock_hz else None
        raw_watch = watch[0] / watch_hz * 1e9 if watch and watch_hz else None
        for what, raw, printed, delta in (("cs", raw_clock, clock_ns, clock),
                                          ("wd", raw_watch, watch_ns, watch)):
            if raw is None or printed is None:
                continue
            self.sums += 1
            if printed == 0 and delta[0] > delta[1] // 2:
                continue  # the kernel takes more than half of the mask for a step back
            if abs(raw - printed) > 200 + raw * 1e-6:
                self.fault(f"{what} counters give {raw:.0f} ns, the line prints {printed} ns")
        if clock_ns is not None and watch_ns:
            self.compare("printed difference", clock_ns - watch_ns, tolerance or 0)
            skewed = number(r"skewed (-?\d+) ns", self.text)
            if skewed is not None and skewed != clock_ns - watch_ns:
                self.fault(f"skewed {skewed} ns is not {clock_ns - watch_ns} ns")
            ppm = self.truth.get("ppm")
            if ppm is not None and abs((clock_ns - watch_ns) / watch_ns * 1e6 - ppm) > 1:
                self.fault(f"ppm is {(clock_ns - watch_ns) / watch_ns * 1e6:.1f}, the truth {ppm}")
        if raw_clock is not None and raw_watch is not None:
            rounding = tolerance if tolerance is not None else 2000 + max(raw_clock, raw_watch) * 3e-5
            self.compare("difference of the counters", raw_clock - raw_watch, rounding)
            wraps = self.truth.get("wraps")
            if wraps is not None:
                turn = (watch[1] + 1) / watch_hz * 1e9 * wraps
                if abs(raw_clock - raw_watch - turn) > max(rounding, 1e6):
                    self.fault(f"{wraps} wraps are {turn:.0f} ns, not {raw_clock - raw_watch:.0f} ns")

    def third_clock(self, clock_ns):
        """A second reference that agrees with the clock convicts the first."""
        third_ns = number(r"wd2_nsec: (\d+)", self.text)
        if third_ns is None:
            return
        self.sums += 1
        if (abs(clock_ns - third_ns) < 1000) != (self.truth["cause"] == "reference-wrong"):
            self.fault(f"the third clock differs by {clock_ns - third_ns} ns from the first")

    def delta(self):
        printed = number(r"unstable \(delta = (-?\d+)", self.text)
        if printed is None:
            return
        bits = self.truth.get("overflow_bits")
        if bits:
            printed -= (1 if printed > 0 else -1) * 2 ** bits
        self.compare("delta", printed, 0)
        wraps, wd_hz = self.truth.get("wraps"), self.case.get("wd_hz")
        if wraps is not None and wd_hz:
            turn = wraps * self.case["wd_ticks"] / wd_hz * 1e9
            if abs(abs(printed) - turn) > 0.02 * turn / max(wraps, 1) + 1e6:
                self.fault(f"{wraps} wraps are {turn:.0f} ns, not {printed} ns")

    def warp(self):
        if not self.name.startswith(("warp-", "adjust-")):
            return
        measured, observed = r"Measured (\d+) cycles TSC warp", r"observed (-?\d+) warp"
        cycles = number(measured if self.name.startswith("warp-") else observed, self.text)
        if cycles is not None and "cs_hz" in self.case and "size_ns" in self.truth:
            self.sums += 1
            size = abs(cycles) / self.case["cs_hz"] * 1e9
            if abs(size - self.truth["size_ns"]) > 1:
                self.fault(f"warp is {size:.1f} ns, the truth {self.truth['size_ns']} ns")

    def daemons(self):
        """A step forward says that the clock was behind."""
        rules = (
            r"System clock was stepped by (-?\d+\.\d+)", r"System clock wrong by (-?\d+\.\d+)",
            r"time reset ([-+]\d+\.\d+) s", r"time stepped by (-?\d+\.\d+)",
            r"(?:step|adjust) time server \S+ offset (-?\d+\.\d+)", r"time slew ([-+]?\d+\.\d+) s")
        for rule in rules:
            found = re.search(rule, self.text)
            if found:
                self.compare(rule.split("(")[0], -float(found[1]) * 1e9, 2000)
                break
        found = re.search(r"frequency error (-?\d+) PPM", self.text)
        if found:
            self.sums += 1
            if int(found[1]) != self.truth.get("ppm"):
                self.fault(f"frequency error is {found[1]} PPM, the truth {self.truth.get('ppm')}")

    def guest_services(self):
        found = re.search(r"Radical host time change: ([-\d ]+)ns", self.text)
        if found and self.name.startswith("vbox-"):
            self.compare("host time change", -int(found[1].replace(" ", "")), 0)
            for who in ("Host", "Guest"):
                self.endpoints(who)
        found = re.search(r"Current \{(\d+), (\d+)\}; New \{(\d+), (\d+)\}", self.text)
        if found and self.name.startswith("hyperv-"):
            now, new = (int(found[i]) * 10**9 + int(found[i + 1]) for i in (1, 3))
            self.compare("TimeSync current less new", now - new, 0)

    def endpoints(self, who):
        """VBoxService prints each change with both of its ends."""
        found = re.search(
            rf"Radical {who.lower()} time change: ([\d ]+)ns "
            rf"\({who}Now=([\d ]+) ns {who}Last=([\d ]+) ns", self.text)
        if found:
            change, now, last = (int(figure.replace(" ", "")) for figure in found.groups())
            self.sums += 1
            if now - last != change:
                self.fault(f"{who} change is {now - last} ns, the line prints {change} ns")

    def delays(self):
        if self.name.startswith("hrtimer-"):
            self.magnitude("interrupt", [number(r"interrupt took (\d+) ns", self.text)])
        if self.name.startswith("readback-"):
            found = re.findall(r"(?:delay of|sequence took:) ?(\d+) ?ns", self.text)
            self.magnitude("longest read", [int(ns) for ns in found])
        if self.name.startswith("xen-"):
            found = number(r"went backwards: delta=(-?\d+)", self.text)
            if found is not None:
                self.compare("xen delta", found, 0)

    def magnitude(self, what, values):
        self.sums += 1
        if max(values) != self.truth.get("size_ns"):
            self.fault(f"{what} is {max(values)} ns, the truth {self.truth.get('size_ns')} ns")

    def check(self):
        self.form()
        if not self.faults:
            for rule in (self.watchdog, self.delta, self.warp, self.daemons, self.guest_services, self.delays):
                rule()
        return self.faults


def tally(title, cases, key):
    counts = {}
    for case in cases:
        counts[key(case)] = counts.get(key(case), 0) + 1
    print(title + ": " + ", ".join(f"{name} {counts[name]}" for name in sorted(counts)))


def main():
    root = Path(__file__).parent
    cases = [Case(path.parent) for path in sorted(root.glob("*/case.toml"))]
    faults = [fault for case in cases for fault in case.check()]
    for fault in faults:
        print(fault, file=sys.stderr)
    print(f"{len(cases)} cases, {sum(1 for case in cases if case.sums)} recomputed "
          f"({sum(case.sums for case in cases)} sums), {len(faults)} disagreements")
    tally("cause", cases, lambda case: case.truth["cause"])
    tally("hypervisor", cases, lambda case: case.case["hypervisor"])
    tally("kernel", cases, lambda case: re.match(r"2\.6|\d+|\w+", case.case["kernel"])[0])
    tally("arch", cases, lambda case: case.case["arch"])
    tally("half", cases, lambda case: case.case["half"])
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
