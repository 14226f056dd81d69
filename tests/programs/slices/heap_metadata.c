// A heap overflow that the allocator finds: one word too many is written behind a block, where the next one's size is.
// fails: SIGABRT
// slice: thin
// repair: for (int i = 0; i < matrix->rows * matrix->columns; i++)
#include <stdio.h>
#include <stdlib.h>

struct matrix {
    int rows, columns;
    long *cells;
};

static struct matrix matrix(int rows, int columns) {
    struct matrix matrix = {rows, columns, malloc((size_t)(rows * columns) * sizeof(long))};
    if (!matrix.cells)
        abort();
    return matrix;
}

static void fill(struct matrix *matrix, long value) {
    for (int i = 0; i <= matrix->rows * matrix->columns; i++) /* REPAIR */
        matrix->cells[i] = value; /* BUG */
}

static long trace(const struct matrix *matrix) {
    long all = 0;
    for (int i = 0; i < matrix->rows && i < matrix->columns; i++)
        all += matrix->cells[i * matrix->columns + i]; /* NOT */
    return all;
}

int main(void) {
    struct matrix small = matrix(3, 3), other = matrix(3, 3);
    fill(&other, 2);
    fill(&small, 12345);
    printf("%ld %ld\n", trace(&small), trace(&other));
    free(small.cells);
    free(other.cells);
    return 0;
}
