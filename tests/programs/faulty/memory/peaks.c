// Finds peaks in a list of measured values; for the last value the neighbour behind the block is asked.
// fails: silent
// run: 3 5 4 2 8 6 7 9
// good: 3 5 4 2 8 6 7 9 1
// good: 9 8 7
// good: 1 2 3 2 1 4 1
// repair:     return i + 1 == s->count || s->values[i] > s->values[i + 1];
#include <stdio.h>
#include <stdlib.h>

struct series {
    long *values;
    int count;
};

struct peak {
    int at;
    long height;
};

static int read_series(struct series *s, int argc, char **argv)
{
    s->count = argc - 1;
    s->values = malloc(s->count * sizeof *s->values);
    if (!s->values)
        return -1;
    for (int i = 0; i < s->count; i++) {
        long v = strtol(argv[i + 1], NULL, 10);
        s->values[i] = v < 0 ? 0 : v * 1000000;
    }
    return 0;
}

static int rises_to(const struct series *s, int i)
{
    return i == 0 || s->values[i] > s->values[i - 1];
}

static int falls_from(const struct series *s, int i)
{
    return s->values[i] > s->values[i + 1]; /* BUG */
}

static int find_peaks(const struct series *s, struct peak *peaks, int max)
{
    int n = 0;
    for (int i = 0; i < s->count && n < max; i++) {
        if (rises_to(s, i) && falls_from(s, i)) {
            peaks[n].at = i;
            peaks[n].height = s->values[i];
            n++;
        }
    }
    return n;
}

static long mean_distance(const struct peak *peaks, int n)
{
    if (n < 2)
        return 0;
    return (peaks[n - 1].at - peaks[0].at) / (n - 1);
}

int main(int argc, char **argv)
{
    struct series s;
    struct peak peaks[32];
    if (argc < 2) {
        fprintf(stderr, "no values\n");
        return 2;
    }
    if (read_series(&s, argc, argv) < 0)
        return 2;
    int n = find_peaks(&s, peaks, 32);
    for (int i = 0; i < n; i++)
        printf("peak of %ld at %d\n", peaks[i].height / 1000000, peaks[i].at);
    printf("%d peaks, mean distance %ld\n", n, mean_distance(peaks, n));
    free(s.values);
    return 0;
}
