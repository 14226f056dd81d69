/* A fast Fourier transform in the style of SPLASH: the data as a matrix, transforms of its rows by their threads, and
 * transposition between them, in which each thread reads what all others wrote. Forth and back, it has to give what was
 * there.
 *
 * flags: -lm
 * test: 3 8
 * soak: 4 64
 */
#include "threads.h"
#include <complex.h>
#include <math.h>

static long threads, side;
static double complex *data, *other;
static pthread_barrier_t barrier;

static void transpose(const double complex *from, double complex *to, long first, long last)
{
    for (long row = first; row < last; row++)
        for (long column = 0; column < side; column++)
            to[row * side + column] = from[column * side + row];
}

/* Of one row, in place. */
static void transform(double complex *row, double direction)
{
    for (long i = 0, j = 0; i < side; i++) {
        if (i < j) {
            double complex x = row[i];
            row[i] = row[j];
            row[j] = x;
        }
        long bit = side >> 1;
        while (bit && (j & bit)) {
            j ^= bit;
            bit >>= 1;
        }
        j |= bit;
    }
    for (long length = 2; length <= side; length *= 2)
        for (long k = 0; k < length / 2; k++) {
            double complex root = cexp(direction * 2 * M_PI * I * (double)k / (double)length);
            for (long start = k; start < side; start += length) {
                double complex a = row[start], b = row[start + length / 2] * root;
                row[start] = a + b;
                row[start + length / 2] = a - b;
            }
        }
}

static void *run(void *number)
{
    long n = (long)number, first = side * n / threads, last = side * (n + 1) / threads, size = side * side;
    for (double direction = -1; direction <= 1; direction += 2) {
        transpose(data, other, first, last);
        pthread_barrier_wait(&barrier);
        for (long row = first; row < last; row++) {
            transform(&other[row * side], direction);
            for (long column = 0; column < side; column++)
                other[row * side + column] *= cexp(direction * 2 * M_PI * I * (double)(row * column) / (double)size);
        }
        pthread_barrier_wait(&barrier);
        transpose(other, data, first, last);
        pthread_barrier_wait(&barrier);
        for (long row = first; row < last; row++)
            transform(&data[row * side], direction);
        pthread_barrier_wait(&barrier);
        transpose(data, other, first, last);
        pthread_barrier_wait(&barrier);
        memcpy(&data[first * side], &other[first * side], (size_t)((last - first) * side) * sizeof *data);
        pthread_barrier_wait(&barrier);
    }
    return NULL;
}

static double value(long i)
{
    return (double)(i * 7919 % 1000) / 1000;
}

int main(int argc, char **argv)
{
    threads = argument(argc, argv, 1, 2);
    side = argument(argc, argv, 2, 16);
    ENSURE(side > 0 && (side & (side - 1)) == 0);
    data = calloc((size_t)(side * side), sizeof *data);
    other = calloc((size_t)(side * side), sizeof *other);
    for (long i = 0; i < side * side; i++)
        data[i] = value(i);
    pthread_barrier_init(&barrier, NULL, (unsigned)threads);
    run_threads((int)threads, run);
    for (long i = 0; i < side * side; i++)
        ENSURE(cabs(data[i] / (double)(side * side) - value(i)) < 1e-9);
    puts("ok");
}
