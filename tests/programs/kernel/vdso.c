// Clocks through the vDSO.
#include "case.h"
#include <sched.h>
#include <sys/time.h>
int main(void) {
    struct timespec last = {0}, now;
    for (int n = 0; n < 3000; n++) {
        EXPECT(clock_gettime(n % 2 ? CLOCK_MONOTONIC : CLOCK_MONOTONIC, &now) == 0);
        EXPECT(now.tv_sec > last.tv_sec || (now.tv_sec == last.tv_sec && now.tv_nsec >= last.tv_nsec));
        last = now;
        struct timeval tv;
        EXPECT(gettimeofday(&tv, NULL) == 0 && tv.tv_sec > 1000000000);
        EXPECT(time(NULL) > 1000000000);
        unsigned cpu;
        EXPECT(getcpu(&cpu, NULL) == 0 && cpu < 10000);
    }
    int clocks[] = {CLOCK_REALTIME, CLOCK_BOOTTIME, CLOCK_TAI, CLOCK_MONOTONIC_RAW, CLOCK_REALTIME_COARSE, CLOCK_PROCESS_CPUTIME_ID};
    for (int n = 0; n < 6; n++)
        EXPECT(clock_gettime(clocks[n], &now) == 0);
    puts("done");
}
