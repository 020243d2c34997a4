// The header in C++: it compiles, and its functions have C's names.
#include <cinttypes>
#include <cstdio>

#include "pvclock.h"

int main()
{
    const std::uint64_t hz = 2600000000;
    pvclock_scale scale{};
    const pvclock_status status = pvclock_scale_from_hz(hz, &scale);
    if (status != PVCLOCK_STATUS_OK) {
        std::printf("%s\n", pvclock_status_text(status));
        return 1;
    }
    std::printf("%" PRIu64 " Hz: mul %" PRIu32 ", shift %d\n", hz, scale.mul,
                static_cast<int>(scale.shift));
    return 0;
}
