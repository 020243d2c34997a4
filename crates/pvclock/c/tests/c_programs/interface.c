/*
 * Every function of the header, called as a C program calls it. Prints each
 * expectation that did not hold, and exits with 1 if there was one.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pvclock.h"

static int failures;

#define EXPECT(what)                                              \
    do {                                                          \
        if (!(what)) {                                            \
            printf("interface.c:%d: not so: %s\n", __LINE__, #what); \
            failures++;                                           \
        }                                                         \
    } while (0)

#define OK(call) EXPECT((call) == PVCLOCK_STATUS_OK)
#define STATUS(name, call) EXPECT((call) == PVCLOCK_STATUS_##name)

/* Memory for any page, and a little more, to start it off its alignment. */
union memory {
    uint64_t words[20];
    uint32_t halves[40];
    unsigned char bytes[160];
};

static const struct pvclock_kvm_update at_3_ghz = {
    .tsc_timestamp = 3000,
    .system_time_ns = 5000000000,
    .scale = { .mul = 0xaaaaaaaa, .shift = -1 },
    .stable = 1,
};

static void test_scales(void)
{
    struct pvclock_scale scale;
    uint64_t value = 0;

    OK(pvclock_scale_from_hz(2600000000, &scale));
    EXPECT(scale.mul == 0xc4ec4ec4 && scale.shift == -1);
    OK(pvclock_scale_to_hz(scale, &value));
    EXPECT(value == 2600000001);
    OK(pvclock_scale_ns(scale, 2600000000, &value));
    EXPECT(value == 999999999);

    STATUS(BAD_FREQUENCY, pvclock_scale_from_hz(999, &scale));
    STATUS(NULL_POINTER, pvclock_scale_from_hz(2600000000, NULL));
    scale.shift = 40;
    STATUS(OVERFLOW, pvclock_scale_ns(scale, UINT64_MAX, &value));
    scale.mul = 0;
    STATUS(BAD_FREQUENCY, pvclock_scale_to_hz(scale, &value));
    EXPECT(value == 999999999); /* an error leaves the result alone */

    OK(pvclock_hyperv_scale_from_hz(2600000000, &value));
    EXPECT(value == 70949015668113660);
    OK(pvclock_hyperv_scale_to_hz(value, &value));
    EXPECT(value == 2600000000);
    STATUS(BAD_FREQUENCY, pvclock_hyperv_scale_from_hz(10000000, &value));
    STATUS(BAD_FREQUENCY, pvclock_hyperv_scale_to_hz(0, &value));
}

/* A kvm-clock page at any multiple of 4. */
static void test_kvm_page(void *page)
{
    struct pvclock_kvm_info info;
    uint64_t ns = 0;
    bool stopped;

    STATUS(OK, pvclock_kvm_info(page, &info));
    EXPECT(info.version == 0 && info.scale.mul == 0);
    OK(pvclock_kvm_write(page, &at_3_ghz));
    OK(pvclock_kvm_info(page, &info));
    EXPECT(info.version == 2 && info.flags == PVCLOCK_KVM_TSC_STABLE);
    EXPECT(info.tsc_timestamp == 3000 && info.system_time_ns == 5000000000);
    EXPECT(info.scale.mul == 0xaaaaaaaa && info.scale.shift == -1);
    OK(pvclock_kvm_read_at(page, 3000 + 3000000000, &ns));
    EXPECT(ns == 5999999999);

    OK(pvclock_kvm_take_guest_stopped(page, &stopped));
    EXPECT(!stopped);
    OK(pvclock_kvm_set_guest_stopped(page));
    STATUS(NULL_POINTER, pvclock_kvm_take_guest_stopped(page, NULL));
    OK(pvclock_kvm_take_guest_stopped(page, &stopped));
    EXPECT(stopped); /* asking without a place for the answer took nothing */
    OK(pvclock_kvm_take_guest_stopped(page, &stopped));
    EXPECT(!stopped);
}

#if defined(__x86_64__)
static void test_kvm_live(void *page)
{
    struct pvclock_kvm_update update = at_3_ghz;
    struct pvclock_last_time last = { 0 };
    uint64_t first = 0, second = 0;

    OK(pvclock_kvm_write(page, &update));
    OK(pvclock_kvm_read_ordered(page, &first));
    OK(pvclock_kvm_read_ordered(page, &second));
    EXPECT(5000000000 <= first && first <= second);
    OK(pvclock_kvm_read(page, &second));

    /* Stable: `last` is not needed. Not stable: no reader steps back. */
    OK(pvclock_kvm_read_monotonic(page, &last, &first));
    EXPECT(last.ns == 0);
    update.stable = 0;
    update.system_time_ns = UINT64_C(1) << 62;
    OK(pvclock_kvm_write(page, &update));
    OK(pvclock_kvm_read_monotonic(page, &last, &first));
    EXPECT(last.ns == first);
    update.system_time_ns = 0;
    OK(pvclock_kvm_write(page, &update));
    OK(pvclock_kvm_read_monotonic(page, &last, &second));
    EXPECT(second == first);

    update.tsc_timestamp = INT64_MAX;
    OK(pvclock_kvm_write(page, &update));
    STATUS(COUNTER_BEHIND, pvclock_kvm_read(page, &first));
    update = at_3_ghz;
    update.system_time_ns = UINT64_MAX;
    OK(pvclock_kvm_write(page, &update));
    STATUS(OVERFLOW, pvclock_kvm_read_ordered(page, &first));
    update.scale.mul = 0;
    OK(pvclock_kvm_write(page, &update));
    STATUS(SWITCHED_OFF, pvclock_kvm_read(page, &first));
    STATUS(NULL_POINTER, pvclock_kvm_read_monotonic(page, NULL, &first));
    STATUS(NULL_POINTER, pvclock_kvm_read_monotonic(page, &last, NULL));
}
#endif

static void test_kvm(void)
{
    union memory memory = { { 0 } };
    struct pvclock_kvm_info info;
    uint64_t ns;

    test_kvm_page(&memory.words[0]);
    memset(&memory, 0, sizeof memory);
    test_kvm_page(&memory.halves[1]);
    EXPECT(memory.halves[0] == 0 && memory.halves[9] == 0);

    memory.halves[1] = 7; /* odd: being written */
    STATUS(NEVER_FINISHED, pvclock_kvm_info(&memory.halves[1], &info));
    STATUS(NEVER_FINISHED, pvclock_kvm_read_at(&memory.halves[1], 0, &ns));
    STATUS(MISALIGNED, pvclock_kvm_info(&memory.bytes[2], &info));
    STATUS(MISALIGNED, pvclock_kvm_write(&memory.bytes[1], &at_3_ghz));
    STATUS(NULL_POINTER, pvclock_kvm_info(NULL, &info));
    STATUS(NULL_POINTER, pvclock_kvm_info(&memory, NULL));
    STATUS(NULL_POINTER, pvclock_kvm_write(&memory, NULL));
    STATUS(NULL_POINTER, pvclock_kvm_set_guest_stopped(NULL));
#if defined(__x86_64__)
    test_kvm_live(&memory.words[10]);
#endif
}

static void test_wall_clock(void)
{
    union memory memory = { { 0 } };
    void *page = &memory.halves[1];
    struct pvclock_wall_clock boot = { 1700000000, 999999999 }, read;

    STATUS(SWITCHED_OFF, pvclock_wall_clock_read(page, &read));
    OK(pvclock_wall_clock_write(page, boot));
    OK(pvclock_wall_clock_read(page, &read));
    EXPECT(read.seconds == 1700000000 && read.nanoseconds == 999999999);
    EXPECT(pvclock_wall_clock_plus(read, 2) == 1700000001000000001);
    EXPECT(pvclock_wall_clock_plus(read, UINT64_MAX) == UINT64_MAX);
    STATUS(MISALIGNED, pvclock_wall_clock_read(&memory.bytes[2], &read));
    STATUS(NULL_POINTER, pvclock_wall_clock_write(NULL, boot));
}

static void test_hyperv(void)
{
    union memory memory = { { 0 } };
    void *page = &memory;
    struct pvclock_hyperv_info info;
    uint32_t sequence = 0;
    uint64_t scale = UINT64_C(1) << 57, units = 0; /* 2^-7 units a cycle */

    STATUS(SWITCHED_OFF, pvclock_hyperv_info(page, &info));
    OK(pvclock_hyperv_write(page, &sequence, scale, -5));
    OK(pvclock_hyperv_info(page, &info));
    EXPECT(info.sequence == 1 && info.scale == scale && info.offset_100ns == -5);
    OK(pvclock_hyperv_read_at(page, 1280, &units));
    EXPECT(units == 5);
    STATUS(OVERFLOW, pvclock_hyperv_read_at(page, 0, &units));

    OK(pvclock_hyperv_switch_off(page));
    STATUS(SWITCHED_OFF, pvclock_hyperv_read_at(page, 1280, &units));
    OK(pvclock_hyperv_write(page, &sequence, scale, 0));
    OK(pvclock_hyperv_info(page, &info));
    EXPECT(sequence == 2 && info.sequence == 2);
#if defined(__x86_64__)
    OK(pvclock_hyperv_read(page, &units));
    OK(pvclock_hyperv_read_ordered(page, &scale));
#endif
    STATUS(MISALIGNED, pvclock_hyperv_info(&memory.halves[1], &info));
    STATUS(NULL_POINTER, pvclock_hyperv_write(page, NULL, scale, 0));
    STATUS(NULL_POINTER, pvclock_hyperv_switch_off(NULL));
}

static void test_vmclock(void)
{
    union memory memory = { { 0 } };
    void *page = &memory;
    struct pvclock_vmclock_info info, wanted = {
        .disruption_marker = 3,
        .flags = PVCLOCK_VMCLOCK_TIME_MAX_ERROR_VALID |
                 PVCLOCK_VMCLOCK_PERIOD_MAX_ERROR_VALID,
        .counter_value = 1000,
        .period = UINT64_C(1) << 60, /* 2^-31 s with the shift below */
        .period_max_error = UINT64_C(1) << 43,
        .time_sec = 1700000000,
        .time_frac = UINT64_C(1) << 63,
        .time_max_error_ns = 250,
        .size = 4096,
        .tai_offset_s = -37,
        .counter_id = PVCLOCK_VMCLOCK_COUNTER_X86_TSC,
        .clock_status = PVCLOCK_VMCLOCK_STATUS_SYNCHRONISED,
        .period_shift = 27,
    };
    struct pvclock_vmclock_time time;

    STATUS(BAD_PAGE, pvclock_vmclock_info(page, &info));
    STATUS(BAD_PAGE, pvclock_vmclock_write(page, &wanted));
    OK(pvclock_vmclock_create(page, &wanted));
    EXPECT(memory.halves[0] == 0x4b4c4356 && memory.halves[1] == 4096);
    OK(pvclock_vmclock_read_at(page, 1000 + (3u << 30), &time));
    EXPECT(time.seconds == 1700000002 && time.fraction == 0);
    EXPECT(time.nanoseconds == 0 && time.max_error_ns == 11445 + 250);
    EXPECT(memcmp(&time.info, &wanted, sizeof wanted) == 0);

    wanted.flags = 0;
    wanted.disruption_marker = 4;
    OK(pvclock_vmclock_write(page, &wanted));
    OK(pvclock_vmclock_info(page, &info));
    EXPECT(info.seq_count == 2 && info.disruption_marker == 4);
#if defined(__x86_64__)
    OK(pvclock_vmclock_read(page, &time));
    EXPECT(time.max_error_ns == PVCLOCK_NO_ERROR_BOUND);
    wanted.counter_id = PVCLOCK_VMCLOCK_COUNTER_ARM_VIRTUAL;
    OK(pvclock_vmclock_write(page, &wanted));
    STATUS(OTHER_COUNTER, pvclock_vmclock_read(page, &time));
    wanted.counter_id = PVCLOCK_VMCLOCK_COUNTER_INVALID;
    OK(pvclock_vmclock_write(page, &wanted));
    STATUS(SWITCHED_OFF, pvclock_vmclock_read(page, &time));
    STATUS(SWITCHED_OFF, pvclock_vmclock_read_at(page, 1000, &time));
    wanted.counter_id = PVCLOCK_VMCLOCK_COUNTER_X86_TSC;
    OK(pvclock_vmclock_write(page, &wanted));
#endif
    STATUS(COUNTER_BEHIND, pvclock_vmclock_read_at(page, 999, &time));
    wanted.time_sec = UINT64_MAX;
    OK(pvclock_vmclock_write(page, &wanted));
    STATUS(OVERFLOW, pvclock_vmclock_read_at(page, 1u << 31, &time));

    wanted.size = 111;
    STATUS(BAD_PAGE, pvclock_vmclock_create(page, &wanted));
    wanted.size = 112;
    STATUS(MISALIGNED, pvclock_vmclock_create(&memory.halves[1], &wanted));
    STATUS(NULL_POINTER, pvclock_vmclock_create(NULL, &wanted));
    STATUS(NULL_POINTER, pvclock_vmclock_create(page, NULL));
    STATUS(NULL_POINTER, pvclock_vmclock_write(page, NULL));
    STATUS(NULL_POINTER, pvclock_vmclock_info(page, NULL));
}

static void test_steal_time(void)
{
    union memory memory = { { 0 } };
    void *page = &memory;
    struct pvclock_steal_info info;
    bool flush = true;

    OK(pvclock_steal_write(page, 1500, &flush));
    EXPECT(!flush);
    OK(pvclock_steal_read(page, &info));
    EXPECT(info.steal_ns == 1500 && info.version == 2 && info.flags == 0);
    EXPECT(!info.preempted && !info.flush_tlb);
    OK(pvclock_steal_set_preempted(page));
    OK(pvclock_steal_read(page, &info));
    EXPECT(info.preempted && info.version == 2);
    memory.bytes[16] |= 2; /* as a guest does that sees us preempted */
    OK(pvclock_steal_write(page, 1600, &flush));
    EXPECT(flush);
    STATUS(NULL_POINTER, pvclock_steal_write(NULL, 0, &flush));
    STATUS(NULL_POINTER, pvclock_steal_write(page, 0, NULL));
    STATUS(MISALIGNED, pvclock_steal_set_preempted(&memory.halves[1]));
}

static void test_texts(void)
{
    EXPECT(strcmp(pvclock_status_text(PVCLOCK_STATUS_OK), "done") == 0);
    for (int status = 0; status <= PVCLOCK_STATUS_BAD_FREQUENCY; status++)
        EXPECT(strcmp(pvclock_status_text(status), pvclock_status_text(-1)) != 0);
    EXPECT(strcmp(pvclock_status_text(10), "not a status of pvclock") == 0);
}

int main(void)
{
    test_scales();
    test_kvm();
    test_wall_clock();
    test_hyperv();
    test_vmclock();
    test_steal_time();
    test_texts();
    return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
