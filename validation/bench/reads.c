/*
 * How many instructions a read takes: validation/bench/reads.sh. On x86-64 the CPU traps after
 * each (EFLAGS.TF), and a handler counts; elsewhere the emulator that runs this logs
 * each, and the functions' names tell them apart.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "parachron_clock.h"
#include "pvclock.h"

static _Alignas(8) unsigned char page[112];
static struct pvclock_vmclock_time at;
static volatile uint64_t sink;
static volatile long steps;

#define ALONE __attribute__((noinline, noclone))
ALONE static void nothing(void) { __asm__ volatile(""); }
ALONE static void clock_read(void) { sink += parachron_clock_now(); }
ALONE static void vmclock_read(void) { sink += (uint64_t)pvclock_vmclock_read(page, &at); }

#if defined(__x86_64__)
static void step(int signal)
{
    (void)signal;
    steps++;
}

ALONE static long counted(void (*function)(void))
{
    steps = 0;
    __asm__ volatile("pushfq; orq $0x100, (%%rsp); popfq" ::: "memory", "cc");
    function();
    __asm__ volatile("pushfq; andq $~0x100, (%%rsp); popfq" ::: "memory", "cc");
    return steps;
}
#else
ALONE static long counted(void (*function)(void))
{
    function();
    return 0;
}
#endif

/* The fewest of some: without what maintains the clock now and then. */
ALONE static long fewest(void (*function)(void))
{
    long fewest = 1 << 30;

    for (int i = 0; i < 20; i++) {
        parachron_clock_maintain();
        const long steps = counted(function);
        fewest = steps < fewest ? steps : fewest;
    }
    return fewest;
}

int main(void)
{
    struct pvclock_vmclock_info info;
    struct parachron_clock_state state;
    const uint64_t start = parachron_clock_now();

    memset(&info, 0, sizeof info);
    info.size = sizeof page;
    info.period = UINT64_C(1) << 54; /* of 2^-84 s: about 1 GHz */
    info.period_shift = 20;
    info.counter_id = PVCLOCK_VMCLOCK_COUNTER_ARM_VIRTUAL;
#if defined(__x86_64__)
    info.counter_id = PVCLOCK_VMCLOCK_COUNTER_X86_TSC;
    signal(SIGTRAP, step);
#endif
    info.clock_status = PVCLOCK_VMCLOCK_STATUS_SYNCHRONISED;
    if (pvclock_vmclock_create(page, &info) != PVCLOCK_STATUS_OK)
        return 1;
    while (parachron_clock_now() - start < 100000000)
        ;
    parachron_clock_status(&state);
    printf("source %d, page: %s\n", (int)state.source,
           pvclock_status_text((int32_t)pvclock_vmclock_read(page, &at)));
    const long empty = fewest(nothing);
    printf("parachron_clock_now %ld\n", fewest(clock_read) - empty);
    printf("pvclock_vmclock_read %ld\n", fewest(vmclock_read) - empty);
    return 0;
}
