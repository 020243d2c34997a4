/* Each function of the header, its answer looked at. */
#define _POSIX_C_SOURCE 200809L

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/time.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "parachron_clock.h"

#define CHECK(what)                                                            \
    do {                                                                       \
        if (!(what)) {                                                         \
            printf("line %d: not so: %s\n", __LINE__, #what);                  \
            return 1;                                                          \
        }                                                                      \
    } while (0)

static volatile sig_atomic_t signals;
static volatile sig_atomic_t back;
static volatile uint64_t last;

static void on_signal(int number)
{
    uint64_t now = parachron_clock_now();

    (void)number;
    back |= now < last;
    last = now;
    signals++;
}

static uint64_t system_ns(clockid_t clock)
{
    struct timespec now;

    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Reads while a signal handler reads, every half millisecond. */
static int read_in_handlers(void)
{
    struct sigaction action = {.sa_handler = on_signal};
    struct itimerval often = {{0, 500}, {0, 500}};
    struct itimerval never = {{0, 0}, {0, 0}};
    uint64_t before = 0;

    /* Reads that maintain the clock make system calls: neither the handler's
     * nor these may show it. */
    errno = ENOTTY;

    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    CHECK(setitimer(ITIMER_REAL, &often, NULL) == 0);
    while (signals < 200) {
        uint64_t now = parachron_clock_now();

        CHECK(now >= before);
        CHECK(errno == ENOTTY);
        before = now;
    }
    CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0);
    CHECK(!back);
    return 0;
}

int main(void)
{
    struct parachron_clock_time_of_day time;
    struct parachron_clock_state state;
    uint64_t before = system_ns(CLOCK_MONOTONIC);
    uint64_t now = parachron_clock_now_ordered();
    int status;
    pid_t child;

    CHECK(now >= before);
    CHECK(parachron_clock_now() >= now);
    CHECK(!parachron_clock_time(NULL));
    CHECK(!parachron_clock_status(NULL));
    before = system_ns(CLOCK_REALTIME);
    CHECK(parachron_clock_time(&time));
    /* To a second, for somebody may be slewing it. */
    CHECK((uint64_t)time.unix_ns + 1000000000u > before);
    CHECK(time.earliest_unix_ns <= time.unix_ns);
    CHECK(time.latest_unix_ns >= time.unix_ns);
    CHECK(parachron_clock_status(&state));
    CHECK(state.source <= PARACHRON_CLOCK_SOURCE_DISAGREES);
    CHECK(parachron_clock_maintain() < 5000000000u);
    CHECK(read_in_handlers() == 0);

    now = parachron_clock_now_ordered();
    child = fork();
    if (child == 0)
        _exit(parachron_clock_now_ordered() < now);
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    puts("all as documented");
    return 0;
}
