/* A page of a live machine, read from C11 and from C++17. */
#include <inttypes.h>
#include <stdio.h>

#include "pvclock.h"

int main(void)
{
    /* version, TSC, ns; then mul, shift -1 and flags in one word */
    const uint64_t page[4] = {32, 3451391528, 1411981263,
                              3512650788 | UINT64_C(0x01ff) << 32};
    uint64_t ns = 0;

    if (pvclock_kvm_read_at(page, 5896819528, &ns) == PVCLOCK_STATUS_OK)
        printf("%" PRIu64 " ns\n", ns);
    puts(pvclock_status_text(pvclock_kvm_read_at(NULL, 0, &ns)));
    return 0;
}
