/*
 * Prints the time that a kvm-clock page gives: now, and at given TSC values.
 *
 *     read_clock FILE [TSC...]
 *
 * FILE begins with the page. It may be a copy of one, or memory that a virtual
 * machine monitor is writing at this moment. How to build: ../README.md.
 *
 * Exits with 0 if it gave every time, 1 if it did not, 2 if there is no page to
 * read.
 */
#define _POSIX_C_SOURCE 200809L

#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pvclock.h"

enum { PAGE_BYTES = 32 };

/* The first bytes of a file, read-only, or NULL with the reason printed. */
static const void *map_page(const char *path)
{
    struct stat about;
    void *page = MAP_FAILED;
    int file = open(path, O_RDONLY | O_CLOEXEC);

    if (file < 0 || fstat(file, &about) != 0) {
        perror(path);
    } else if (about.st_size < PAGE_BYTES) {
        fprintf(stderr, "%s: %jd bytes, but a page has %d\n", path,
                (intmax_t)about.st_size, PAGE_BYTES);
    } else {
        page = mmap(NULL, PAGE_BYTES, PROT_READ, MAP_SHARED, file, 0);
        if (page == MAP_FAILED)
            perror(path);
    }
    if (file >= 0)
        close(file);
    return page == MAP_FAILED ? NULL : page;
}

/* Prints a time, or why there is none; returns whether there is one. */
static bool print_time(const char *when, enum pvclock_status status, uint64_t ns)
{
    if (status == PVCLOCK_STATUS_OK)
        printf("%s: %" PRIu64 " ns\n", when, ns);
    else
        printf("%s: %s\n", when, pvclock_status_text(status));
    return status == PVCLOCK_STATUS_OK;
}

static bool print_contents(const void *page)
{
    struct pvclock_kvm_info info;
    uint64_t hz;
    enum pvclock_status status = pvclock_kvm_info(page, &info);

    if (status != PVCLOCK_STATUS_OK) {
        printf("page: %s\n", pvclock_status_text(status));
        return false;
    }
    printf("page: version %" PRIu32 ", flags %#x, TSC %" PRIu64 " = %" PRIu64 " ns\n",
           info.version, (unsigned)info.flags, info.tsc_timestamp,
           info.system_time_ns);
    status = pvclock_scale_to_hz(info.scale, &hz);
    if (status != PVCLOCK_STATUS_OK) {
        printf("rate: %s\n", pvclock_status_text(status));
        return false;
    }
    printf("rate: mul %" PRIu32 ", shift %d: %" PRIu64 " Hz\n", info.scale.mul,
           (int)info.scale.shift, hz);
    return true;
}

int main(int argc, char **argv)
{
    const void *page;
    uint64_t ns = 0;
    bool has_all;

    if (argc < 2) {
        fprintf(stderr, "usage: %s FILE [TSC...]\n", argv[0]);
        return 2;
    }
    page = map_page(argv[1]);
    if (page == NULL)
        return 2;

    has_all = print_contents(page);
    for (int i = 2; i < argc; i++) {
        enum pvclock_status status =
            pvclock_kvm_read_at(page, strtoull(argv[i], NULL, 0), &ns);
        has_all &= print_time(argv[i], status, ns);
    }
#if defined(__x86_64__)
    {
        enum pvclock_status status = pvclock_kvm_read_ordered(page, &ns);
        has_all &= print_time("now", status, ns);
    }
#endif
    return has_all ? 0 : 1;
}
