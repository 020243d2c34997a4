// A page of a live machine, read from Go.
package main

// #cgo pkg-config: pvclock
// #include "pvclock.h"
import "C"

import (
	"fmt"
	"unsafe"
)

func main() {
	// version, TSC, ns; then mul, shift -1 and flags in one word
	page := [4]uint64{32, 3451391528, 1411981263, 3512650788 | 0x01ff<<32}
	var ns C.uint64_t
	if C.pvclock_kvm_read_at(unsafe.Pointer(&page), 5896819528, &ns) == C.PVCLOCK_STATUS_OK {
		fmt.Println(uint64(ns), "ns")
	}
	fmt.Println(C.GoString(C.pvclock_status_text(C.int32_t(C.pvclock_kvm_read_at(nil, 0, &ns)))))
}
