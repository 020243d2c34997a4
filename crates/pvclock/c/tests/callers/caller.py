"""A page of a live machine, read from Python."""

import ctypes

library = ctypes.CDLL("libpvclock_c.so")
library.pvclock_kvm_read_at.argtypes = [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_void_p]
library.pvclock_status_text.restype = ctypes.c_char_p

# version, TSC, ns; then mul, shift -1 and flags in one word
page = (ctypes.c_uint64 * 4)(32, 3451391528, 1411981263, 3512650788 | 0x01FF << 32)
ns = ctypes.c_uint64()
if library.pvclock_kvm_read_at(page, 5896819528, ctypes.byref(ns)) == 0:
    print(ns.value, "ns")
status = library.pvclock_kvm_read_at(None, 0, ctypes.byref(ns))
print(library.pvclock_status_text(status).decode())
