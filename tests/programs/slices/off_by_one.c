// Off by one: the moving average leaves out the last value of its window.
// fails: output
// slice: full
// repair: for (int i = 0; i < width; i++)
#include <stdio.h>

#define COUNT 12
#define WIDTH 4

struct series {
    int values[COUNT];
    int averages[COUNT];
    int used;
};

static void fill(struct series *series) {
    int value = 17;
    for (int i = 0; i < COUNT; i++) {
        value = (value * 37 + 11) % 101;
        series->values[i] = value;
    }
    series->used = COUNT;
}

static int sum(const int *values, int width) {
    int all = 0;
    for (int i = 0; i < width - 1; i++) /* BUG */
        all += values[i];
    return all;
}

static void smooth(struct series *series, int width) {
    for (int i = 0; i + width <= series->used; i++)
        series->averages[i] = sum(series->values + i, width) / width;
}

static unsigned checksum(const struct series *series) {
    unsigned all = 7;
    for (int i = 0; i < series->used; i++)
        all = all * 31 + (unsigned)series->values[i]; /* NOT */
    return all;
}

int main(void) {
    struct series series = {0};
    fill(&series);
    smooth(&series, WIDTH);
    printf("checksum %08x\n", checksum(&series));
    for (int i = 0; i + WIDTH <= series.used; i++)
        printf("%d: %d\n", i, series.averages[i]);
    return 0;
}
