/*
 * Prints the time of day with its error, and what reading the clock costs.
 * How to build: ../README.md.
 */
#include <inttypes.h>
#include <stdio.h>

#include "parachron_clock.h"

enum { READS = 1000000 };

int main(void)
{
    struct parachron_clock_time_of_day time;
    struct parachron_clock_state state;
    uint64_t start_ns = parachron_clock_now();

    /* The clock measures the TSC while it is read for the first 10 ms. */
    while (parachron_clock_now() - start_ns < 30000000)
        ;
    if (!parachron_clock_time(&time) || !parachron_clock_status(&state))
        return 1;
    printf("monotonic: %" PRIu64 " ns\n", parachron_clock_now_ordered());
    printf("time of day: %" PRId64 " ns", time.unix_ns);
    if (time.bounded)
        printf(", from %" PRId64 " to %" PRId64 "\n", time.earliest_unix_ns,
               time.latest_unix_ns);
    else
        printf(", error unknown\n");
    if (state.source == PARACHRON_CLOCK_SOURCE_TSC)
        printf("counts: the TSC at %" PRIu64 " Hz\n", state.tsc_hz);
    else
        printf("counts: the system's clock, reason %d\n", (int)state.source);
    printf("disruptions: %" PRIu64 "\n", state.disruptions);

    start_ns = parachron_clock_now();
    for (int i = 1; i < READS; i++)
        (void)parachron_clock_now();
    printf("cost: %.1f ns a read\n",
           (double)(parachron_clock_now() - start_ns) / READS);
    printf("next due in: %" PRIu64 " ns\n", parachron_clock_maintain());
    return 0;
}
