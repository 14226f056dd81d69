/* Relaxation of a grid in the style of SPLASH's ocean: red points, then black ones, each the mean of its neighbours;
 * threads read the rows at the edges of other threads, and add to one sum under a lock.
 *
 * test: 3 20 20
 * soak: 4 130 60
 */
#include "threads.h"

static long threads, side, rounds;
static double *grid;
/* Of integers: the order in which threads add does not matter. */
static long change;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t barrier;

static void *run(void *number)
{
    long n = (long)number, inner = side - 2;
    long first = 1 + inner * n / threads, last = 1 + inner * (n + 1) / threads;
    for (long round = 0; round < rounds; round++) {
        double mine = 0;
        for (long colour = 0; colour < 2; colour++) {
            for (long row = first; row < last; row++)
                for (long column = 1 + (row + colour) % 2; column < side - 1; column += 2) {
                    double *point = &grid[row * side + column];
                    double mean = (point[-1] + point[1] + point[-side] + point[side]) / 4;
                    mine += mean > *point ? mean - *point : *point - mean;
                    *point = mean;
                }
            pthread_barrier_wait(&barrier);
        }
        pthread_mutex_lock(&mutex);
        change += (long)mine;
        pthread_mutex_unlock(&mutex);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    threads = argument(argc, argv, 1, 2);
    side = argument(argc, argv, 2, 34);
    rounds = argument(argc, argv, 3, 10);
    grid = calloc((size_t)(side * side), sizeof *grid);
    for (long i = 0; i < side; i++) {
        grid[i] = (double)(i * 1000);
        grid[i * side] = (double)(i * 500);
    }
    pthread_barrier_init(&barrier, NULL, (unsigned)threads);
    run_threads((int)threads, run);
    double sum = 0;
    for (long i = 0; i < side * side; i++)
        sum += grid[i];
    ENSURE(change > 0);
    printf("%.3f\n", sum);
}
