/* LU decomposition of a matrix by blocks in the style of SPLASH: each block has an owner, which reads the blocks of the
 * pivot's row and column. The product of the factors has to be the matrix.
 *
 * test: 3 24
 * soak: 4 128
 */
#include "threads.h"

enum { BLOCK = 8 };
static long threads, size, blocks;
static double *matrix, *original;
static pthread_barrier_t barrier;

static double *at(double *of, long row, long column)
{
    return &of[row * size + column];
}

static long owner(long row, long column)
{
    return (row * 2 + column) % threads;
}

/* The block with the pivots. */
static void diagonal(long k)
{
    for (long p = k; p < k + BLOCK; p++)
        for (long i = p + 1; i < k + BLOCK; i++) {
            double factor = *at(matrix, i, p) /= *at(matrix, p, p);
            for (long j = p + 1; j < k + BLOCK; j++)
                *at(matrix, i, j) -= factor * *at(matrix, p, j);
        }
}

/* A block in the pivots' row. */
static void right(long k, long column)
{
    for (long p = k; p < k + BLOCK; p++)
        for (long i = p + 1; i < k + BLOCK; i++)
            for (long j = column; j < column + BLOCK; j++)
                *at(matrix, i, j) -= *at(matrix, i, p) * *at(matrix, p, j);
}

/* A block in the pivots' column. */
static void below(long k, long row)
{
    for (long p = k; p < k + BLOCK; p++)
        for (long i = row; i < row + BLOCK; i++) {
            double factor = *at(matrix, i, p) /= *at(matrix, p, p);
            for (long j = p + 1; j < k + BLOCK; j++)
                *at(matrix, i, j) -= factor * *at(matrix, p, j);
        }
}

static void inner(long k, long row, long column)
{
    for (long i = row; i < row + BLOCK; i++)
        for (long p = k; p < k + BLOCK; p++)
            for (long j = column; j < column + BLOCK; j++)
                *at(matrix, i, j) -= *at(matrix, i, p) * *at(matrix, p, j);
}

static void *run(void *number)
{
    long n = (long)number;
    for (long k = 0; k < blocks; k++) {
        if (owner(k, k) == n)
            diagonal(k * BLOCK);
        pthread_barrier_wait(&barrier);
        for (long i = k + 1; i < blocks; i++) {
            if (owner(k, i) == n)
                right(k * BLOCK, i * BLOCK);
            if (owner(i, k) == n)
                below(k * BLOCK, i * BLOCK);
        }
        pthread_barrier_wait(&barrier);
        for (long i = k + 1; i < blocks; i++)
            for (long j = k + 1; j < blocks; j++)
                if (owner(i, j) == n)
                    inner(k * BLOCK, i * BLOCK, j * BLOCK);
        pthread_barrier_wait(&barrier);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    threads = argument(argc, argv, 1, 2);
    size = argument(argc, argv, 2, 32);
    ENSURE(size > 0 && size % BLOCK == 0);
    blocks = size / BLOCK;
    matrix = calloc((size_t)(size * size), sizeof *matrix);
    original = calloc((size_t)(size * size), sizeof *original);
    for (long i = 0; i < size * size; i++)
        original[i] = matrix[i] = (double)(i * 7919 % 1000) / 1000 + (i % (size + 1) == 0 ? (double)size : 0);
    pthread_barrier_init(&barrier, NULL, (unsigned)threads);
    run_threads((int)threads, run);
    /* Some rows: all would take longer than the decomposition. */
    for (long row = 0; row < size; row += size / 8)
        for (long column = 0; column < size; column++) {
            double sum = 0;
            for (long k = 0; k <= row && k <= column; k++)
                sum += (k == row ? 1 : *at(matrix, row, k)) * *at(matrix, k, column);
            double error = sum - *at(original, row, column);
            ENSURE(error < 1e-6 && error > -1e-6);
        }
    puts("ok");
}
