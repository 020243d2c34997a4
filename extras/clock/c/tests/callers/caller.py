"""The clock, read from Python."""

import ctypes


class TimeOfDay(ctypes.Structure):
    """struct parachron_clock_time_of_day"""

    _fields_ = [
        ("unix_ns", ctypes.c_int64),
        ("earliest_unix_ns", ctypes.c_int64),
        ("latest_unix_ns", ctypes.c_int64),
        ("bounded", ctypes.c_bool),
    ]


library = ctypes.CDLL("libclock_c.so")
library.parachron_clock_now_ordered.restype = ctypes.c_uint64
library.parachron_clock_time.restype = ctypes.c_bool

time = TimeOfDay()
print(library.parachron_clock_now_ordered())
if library.parachron_clock_time(ctypes.byref(time)) and time.unix_ns > 0:
    print("a time of day")
