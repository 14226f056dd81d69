/* Computes and makes calls, from sites that are used often, while signals come every half millisecond: `storm SIGNALS [restart]`. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile unsigned alarms, others;

static void on(int signal)
{
    struct stat stat_of;
    if (signal == SIGALRM)
        alarms++;
    else
        others++;
    stat("/etc/passwd", &stat_of);
}

int main(int count, char **arguments)
{
    unsigned total = (unsigned)atoi(arguments[1]), x = 1, read_bytes = 0;
    struct sigaction action = { 0 };
    struct itimerval every = { { 0, 500 }, { 0, 500 } };
    char buffer[4096];
    int ends[2];
    action.sa_handler = on;
    action.sa_flags = count > 2 ? SA_RESTART : 0;
    sigaction(SIGALRM, &action, 0);
    sigaction(SIGPROF, &action, 0);
    sigaction(SIGCHLD, &action, 0);
    if (pipe(ends) < 0)
        return 2;
    setitimer(ITIMER_REAL, &every, 0);
    setitimer(ITIMER_PROF, &every, 0);
    while (alarms < total) {
        struct stat stat_of;
        int file;
        for (int i = 0; i < 2000; i++)
            x = x * 1103515245 + 12345 + alarms;
        stat("/etc/group", &stat_of);
        file = open("/etc/passwd", O_RDONLY);
        if (read(file, buffer, 100) > 0)
            read_bytes++;
        close(file);
        memset(buffer, (int)x, sizeof buffer);
        if (x % 64 == 0 && write(ends[1], "x", 1) == 1)
            while (read(ends[0], buffer, 1) != 1)
                ;
        if (x % 128 == 0)
            usleep(700);
        if (x % 1024 == 1 && fork() == 0)
            _exit(0);
        if (x % 256 == 2)
            for (volatile int i = 0; i < 3000000; i++)
                ;
    }
    every.it_interval.tv_usec = every.it_value.tv_usec = 0;
    setitimer(ITIMER_REAL, &every, 0);
    setitimer(ITIMER_PROF, &every, 0);
    while (wait(0) > 0)
        ;
    printf("%u %u %u %u\n", alarms, others, x, read_bytes);
    return 0;
}
