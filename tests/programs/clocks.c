/* Clocks and the processor's number, through the vDSO: the values come from pages that the kernel writes, and from
 * RDTSC. What is printed does not depend on them, unless they make no sense. */
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

int main(int argc, char **argv)
{
    int turns = argc > 1 ? atoi(argv[1]) : 1000, backwards = 0, bad_cpu = 0;
    struct timespec before = { 0 }, now;
    unsigned mix = 0;
    for (int i = 0; i < turns; i++) {
        if (clock_gettime(CLOCK_MONOTONIC, &now))
            return 2;
        backwards += now.tv_sec < before.tv_sec || (now.tv_sec == before.tv_sec && now.tv_nsec < before.tv_nsec);
        before = now;
        struct timespec other;
        clock_gettime(CLOCK_REALTIME, &other);
        mix = mix * 31 + (unsigned)other.tv_nsec;
        clock_gettime(CLOCK_MONOTONIC_COARSE, &other);
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &other);
        struct timeval day;
        gettimeofday(&day, NULL);
        mix += (unsigned)time(NULL) ^ (unsigned)day.tv_usec;
        bad_cpu += sched_getcpu() < 0;
    }
    printf("%d turns, %d backwards, %d bad processor numbers%s\n", turns, backwards, bad_cpu, mix == 1 ? "." : "");
    return 0;
}
