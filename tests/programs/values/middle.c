// Seen from the middle of a long computation: arguments that nobody looks at, memory of which only a part was written, globals that nobody touched.
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
struct item { char kind; double price; char name[16]; };
int table[4] = {5, 6, 7, 8};
struct settings { int a, b; char name[20]; } settings = {1, 2, "hello"};
long nothing[100];
static volatile unsigned long total;
__attribute__((noinline)) static void work(struct item *items, long count) {
    for (long i = 0; i < count; i++)
        total = total * 31 + i;
}
int main(int count, char **arguments) {
    struct item *items = malloc(3 * sizeof *items);
    items[1].kind = 'b';
    items[1].price = 1.5;
    char *mapped = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mapped[5000] = 'x';
    char line[64];
    long got = read(0, line, sizeof line);
    work(items, 3000000);
    total += line[1];
    printf("%lu %d %ld\n", total, count, got);
    return arguments == NULL;
}
