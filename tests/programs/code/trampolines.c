// Nested functions: gcc puts a trampoline for each on the stack, which has to be executable.
// flags: -z execstack
#include <stdio.h>

typedef int operation(int);

__attribute__((noinline)) static int twice(operation *f, int x) { return f(f(x)); }

__attribute__((noinline)) static int with(int a, int depth)
{
    int add(int x) { return x + a; }
    int multiply(int x) { return x * a + depth; }
    int result = twice(depth % 2 ? add : multiply, depth) & 0xffff;
    return depth ? result + with(a + depth, depth - 1) : result;
}

int main(void)
{
    long sum = 0;
    for (int i = 0; i < 20; i++)
        sum = sum * 5 + with(i, 12);
    printf("%ld\n", sum);
    return 0;
}
