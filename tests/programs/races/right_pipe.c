// Work that goes from thread to thread through a pipe and comes back through a pair of sockets. Threads see nothing of each other but that, and
// both ends are read before what they hand over is looked at. A copy of the pipe's end is written to as well.
#include "races.h"
#include <sys/socket.h>

struct job {
    int input, output;
};

struct job jobs[50];
int work[2], answers[2], rest[4];

static void *serve(void *unused)
{
    struct job *job;
    while (read(work[0], &job, sizeof job) == sizeof job) {
        job->output = 3 * job->input + 1;
        if (write(answers[1], &job, sizeof job) != sizeof job)
            abort();
    }
    rest[0]++;
    close(answers[1]);
    return unused;
}

static void *ask(void *unused)
{
    int copy = dup(work[1]);
    long sum = 0;
    for (int i = 0; i < 50; i++) {
        struct job *job = &jobs[i];
        job->input = i;
        if (write(i % 2 ? copy : work[1], &job, sizeof job) != sizeof job)
            abort();
        // The second half is all on its way before the first answer is read.
        if (i < 25 && read(answers[0], &job, sizeof job) == sizeof job)
            sum += job->output;
    }
    for (int i = 25; i < 50; i++) {
        struct job *job;
        if (recv(answers[0], &job, sizeof job, 0) == sizeof job)
            sum += job->output;
    }
    rest[0] = 1;
    close(copy);
    close(work[1]);
    char end;
    // The other side has closed its end.
    if (read(answers[0], &end, 1) != 0)
        abort();
    rest[0]++;
    return sum == 3 * 1225 + 50 ? unused : &sum;
}

int main(void)
{
    if (pipe(work) || socketpair(AF_UNIX, SOCK_STREAM, 0, answers))
        return 1;
    run_two(ask, serve, NULL);
    return rest[0] != 3;
}
