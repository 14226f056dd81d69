// A child process has the pipe, too, and might have written what is read. It does not, but nobody can tell.
// race: given
// benign: may-be-ordered
#include "races.h"
#include <sys/wait.h>

int ends[2], given;

static void *give(void *unused)
{
    given = 1; /* RACE */
    if (write(ends[1], "x", 1) != 1)
        abort();
    return unused;
}

static void *take(void *unused)
{
    char x;
    if (read(ends[0], &x, 1) != 1)
        abort();
    given++; /* RACE */
    return unused;
}

int main(void)
{
    if (pipe(ends))
        return 1;
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    waitpid(child, NULL, 0);
    run_two(give, take, NULL);
    return given != 2;
}
