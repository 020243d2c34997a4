/* The clock, read from C11 and from C++17. */
#include <inttypes.h>
#include <stdio.h>

#include "parachron_clock.h"

int main(void)
{
    struct parachron_clock_time_of_day time;

    printf("%" PRIu64 "\n", parachron_clock_now_ordered());
    puts(parachron_clock_time(&time) && time.unix_ns > 0 ? "a time of day" : "none");
    return 0;
}
