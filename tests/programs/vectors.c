/* Vector code as compilers make it: the same kernels with AVX2 and FMA. Argument: turns. */
#include <stdio.h>
#include <stdlib.h>

#define N 4096

static float a[N], b[N], c[N];
static unsigned char bytes[N];

__attribute__((target("avx2,fma"), optimize("O3", "fast-math"))) static void kernel(int turn)
{
    for (int i = 0; i < N; i++)
        c[i] = a[i] * b[i] + c[i] * 0.5f;
    float sum = 0;
    for (int i = 0; i < N; i++)
        sum += c[i] * a[N - 1 - i];
    a[turn % N] = sum * 1e-6f;
    for (int i = 0; i < N; i++)
        bytes[i] = (unsigned char)(bytes[i] * 5 + (c[i] > 1.0f ? turn : 3));
    for (int i = 0; i < N; i++)
        b[i] += a[(unsigned char)(bytes[i]) * 16];
}

int main(int argc, char **argv)
{
    int turns = argc > 1 ? atoi(argv[1]) : 100;
    for (int i = 0; i < N; i++)
        a[i] = i * 0.001f, b[i] = 2.0f - i * 0.0001f, bytes[i] = i;
    for (int turn = 0; turn < turns; turn++)
        kernel(turn);
    double sum = 0;
    unsigned hash = 0;
    for (int i = 0; i < N; i++)
        sum += c[i], hash = hash * 33 + bytes[i];
    printf("%.3f %u\n", sum, hash);
    return 0;
}
