/* A static program: hashes, sorts, formats and allocates with its own libc. Argument: how many numbers. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct entry {
    char name[24];
    double weight;
    struct entry *next;
};

static struct entry *buckets[1024];

static int by_weight(const void *a, const void *b)
{
    const struct entry *x = *(struct entry *const *)a, *y = *(struct entry *const *)b;
    return x->weight < y->weight ? -1 : x->weight > y->weight ? 1 : strcmp(x->name, y->name);
}

int main(int argc, char **argv)
{
    unsigned count = argc > 1 ? atoi(argv[1]) : 1000, unique = 0;
    unsigned long state = 88172645463325252ul;
    for (unsigned i = 0; i < count; i++) {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        char name[24];
        snprintf(name, sizeof name, "k%lx", state % (count / 2 + 1));
        unsigned hash = 5381;
        for (char *c = name; *c; c++)
            hash = hash * 33 + (unsigned char)*c;
        struct entry **at = &buckets[hash % 1024];
        while (*at && strcmp((*at)->name, name))
            at = &(*at)->next;
        if (!*at) {
            *at = calloc(1, sizeof **at);
            if (!*at)
                return 2;
            strcpy((*at)->name, name);
            unique++;
        }
        (*at)->weight += sqrt((double)(state % 1000));
    }
    struct entry **all = malloc(unique * sizeof *all);
    if (!all)
        return 2;
    unsigned n = 0;
    for (int b = 0; b < 1024; b++)
        for (struct entry *e = buckets[b]; e; e = e->next)
            all[n++] = e;
    qsort(all, n, sizeof *all, by_weight);
    for (unsigned i = 0; i < n; i += n / 20 + 1)
        printf("%-20s %12.4f\n", all[i]->name, all[i]->weight);
    fprintf(stderr, "%u of %u different\n", unique, count);
    return 7;
}
