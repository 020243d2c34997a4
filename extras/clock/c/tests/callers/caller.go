// The clock, read from Go.
package main

// #cgo pkg-config: parachron_clock
// #include "parachron_clock.h"
import "C"

import "fmt"

func main() {
	var time C.struct_parachron_clock_time_of_day
	fmt.Println(uint64(C.parachron_clock_now_ordered()))
	if C.parachron_clock_time(&time) && time.unix_ns > 0 {
		fmt.Println("a time of day")
	}
}
