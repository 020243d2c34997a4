#include <cstdio>

#include "parachron_clock.h"

int main()
{
    const uint64_t first = parachron_clock_now();

    std::puts(parachron_clock_now() >= first ? "time goes forward"
                                             : "time goes back");
}
