"""Allan deviations by allantools of the series that the test writes: see
src/oscillator/tests.rs. Needs `pip install allantools`; prints allantools.in."""

import pathlib
import sys

import allantools

print("[")
for kind in ["white", "flicker", "walk"]:
    for tau in [1, 10, 100, 1000, 10000, 100000]:
        phase = [float(x) for x in (pathlib.Path(sys.argv[1]) / f"{kind}-{tau}").read_text().split()]
        _, deviation, _, _ = allantools.oadev(phase, rate=4 / tau, data_type="phase", taus=[tau])
        print(f'    ("{kind}", {float(tau)}, {float(deviation[0])!r}),')
print("]")
