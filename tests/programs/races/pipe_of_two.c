// Two threads write to one pipe, and nobody can tell whose byte was read first: the first read comes behind one of them, the second behind both.
// race: left
// race: right
// benign: may-be-ordered
// flags: -Wl,-z,now
#include "races.h"
#include <sys/ioctl.h>

#define ALONE __attribute__((aligned(4096)))

ALONE int left;
ALONE int right;
ALONE int ends[2], starts[2][2];
ALONE int sum;

static void start(int number)
{
    char x;
    if (read(starts[number][0], &x, 1) != 1)
        abort();
}

static void *give_left(void *unused)
{
    start(0);
    left = 1; /* RACE */
    if (write(ends[1], "x", 1) != 1)
        abort();
    return unused;
}

static void *give_right(void *unused)
{
    start(1);
    right = 1; /* RACE */
    if (write(ends[1], "x", 1) != 1)
        abort();
    return unused;
}

static void *take(void *unused)
{
    char x;
    int there = 0;
    while (there < 2 && ioctl(ends[0], FIONREAD, &there) == 0)
        usleep(1000);
    if (read(ends[0], &x, 1) != 1)
        abort();
    sum += left + right; /* RACE */
    if (read(ends[0], &x, 1) != 1)
        abort();
    left++;
    right++;
    return unused;
}

int main(void)
{
    pthread_t threads[3];
    if (pipe(ends) || pipe(starts[0]) || pipe(starts[1]))
        return 1;
    pthread_create(&threads[0], NULL, take, NULL);
    pthread_create(&threads[1], NULL, give_left, NULL);
    pthread_create(&threads[2], NULL, give_right, NULL);
    for (int i = 0; i < 2; i++)
        if (write(starts[i][1], "x", 1) != 1)
            return 1;
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    return left + right != 4;
}
