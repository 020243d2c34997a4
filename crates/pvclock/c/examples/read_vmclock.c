/*
 * Prints UTC and its error bound, as a VMClock page has them.
 *
 *     read_vmclock [FILE]
 *
 * FILE is /dev/vmclock0 unless it is given; any file that begins with the page
 * will do. How to build: ../README.md.
 *
 * Exits with 0 if the page has UTC, 1 if it has not, 2 if there is no page to
 * read.
 */
#define _POSIX_C_SOURCE 200809L

#include <fcntl.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pvclock.h"

enum { PAGE_BYTES = 112, IN_LEAP_SECOND = 3 };

/* The page of a device or a file, read-only, or NULL with the reason printed. */
static const void *map_page(const char *path)
{
    struct stat about;
    void *page = MAP_FAILED;
    int file = open(path, O_RDONLY | O_CLOEXEC);

    if (file < 0 || fstat(file, &about) != 0) {
        perror(path);
    } else if (S_ISREG(about.st_mode) && about.st_size < PAGE_BYTES) {
        fprintf(stderr, "%s: %jd bytes, but a page has %d\n", path,
                (intmax_t)about.st_size, PAGE_BYTES);
    } else {
        /* Linux maps one whole page of the device, and nothing else. */
        page = mmap(NULL, (size_t)sysconf(_SC_PAGESIZE), PROT_READ, MAP_SHARED,
                    file, 0);
        if (page == MAP_FAILED)
            perror(path);
    }
    if (file >= 0)
        close(file);
    return page == MAP_FAILED ? NULL : page;
}

/* Why a time is not UTC with an error bound; NULL if it is, in `*seconds`. */
static const char *utc(const struct pvclock_vmclock_time *time, int64_t *seconds)
{
    const struct pvclock_vmclock_info *info = &time->info;

    *seconds = (int64_t)time->seconds;
    if (info->clock_status != PVCLOCK_VMCLOCK_STATUS_SYNCHRONISED &&
        info->clock_status != PVCLOCK_VMCLOCK_STATUS_FREE_RUNNING)
        return "the host's clock is not synchronised";
    if (time->max_error_ns == PVCLOCK_NO_ERROR_BOUND)
        return "the host states no error bound";
    switch (info->time_type) {
    case PVCLOCK_VMCLOCK_TIME_UTC:
        return info->leap_indicator == IN_LEAP_SECOND
                   ? "a leap second is being inserted"
                   : NULL;
    case PVCLOCK_VMCLOCK_TIME_TAI:
        /* TAI is ahead of UTC; hosts write -37 or 37. */
        *seconds -= abs(info->tai_offset_s);
        return info->flags & PVCLOCK_VMCLOCK_TAI_OFFSET_VALID
                   ? NULL
                   : "the page has TAI without its offset from UTC";
    default:
        return "the page has neither UTC nor TAI";
    }
}

int main(int argc, char **argv)
{
    const void *page = map_page(argc > 1 ? argv[1] : "/dev/vmclock0");
    struct pvclock_vmclock_time time;
    enum pvclock_status status;
    int64_t seconds = 0;
    const char *reason;

    if (page == NULL)
        return 2;
    status = pvclock_vmclock_read(page, &time);
    reason = status == PVCLOCK_STATUS_OK ? utc(&time, &seconds)
                                         : pvclock_status_text(status);
    if (reason != NULL) {
        printf("no UTC: %s\n", reason);
        return 1;
    }
    printf("UTC: %" PRId64 ".%09" PRIu32 " s, at most %" PRIu64 " ns off\n", seconds,
           time.nanoseconds, time.max_error_ns);
    return 0;
}
