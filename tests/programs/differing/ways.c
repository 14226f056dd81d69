// Goes other ways, by its argument: by a jump table, through a pointer, out of calls by longjmp, and around a loop.
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

static jmp_buf back;
static long sum;

static void one(void) { sum += 1; }
static void two(void) { sum += 20; }
static void (*const calls[])(void) = {one, two};

static void deep(int n, int jumps) {
    if (n > 0)
        deep(n - 1, jumps);
    else if (jumps)
        longjmp(back, 1);
    sum++;
}

static int chosen(int n) {
    switch (n) {
    case 0: return 5;
    case 1: return 17;
    case 2: return 3;
    case 3: return 91;
    case 4: return 23;
    case 5: return 8;
    default: return 0;
    }
}

static int smaller(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }

int main(int argc, char **argv) {
    const char *way = argc > 1 ? argv[1] : "0000";
    int numbers[] = {5, 3, 9, 1, 7};
    numbers[2] = way[3] == '1' ? 0 : 9;
    for (int outer = 0; outer < 4; outer++) {
        int rounds = outer == 2 && way[0] == '1' ? 6 : 5;
        for (int i = 0; i < rounds; i++)
            sum += i;
    }
    sum += chosen(way[1] - '0');
    calls[way[2] - '0']();
    for (int i = 0; i < 3; i++)
        if (setjmp(back) == 0)
            deep(4, way[2] == '1');
    qsort(numbers, 5, sizeof numbers[0], smaller);
    printf("%ld %d\n", sum, numbers[0]);
    return 0;
}
