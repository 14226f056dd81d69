// Dies with variables in scope; the argument says how.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NOINLINE __attribute__((noinline))

struct list { struct list *next; const char *name; int value; int zero; };

static pthread_mutex_t first = PTHREAD_MUTEX_INITIALIZER;
static struct { int number; pthread_mutex_t lock; } shared = { 5, PTHREAD_MUTEX_INITIALIZER };
static volatile int held;

NOINLINE static int total(struct list *list)
{
    int sum = 0;
    for (struct list *at = list;; at = at->next) // dying
        sum += at->value;
    return sum;
}

NOINLINE static void give_back(char *memory)
{
    free(memory);
    free(memory); // twice
}

NOINLINE static void call(void (*function)(void), const char *why)
{
    function(); // calling
    puts(why);
}

static void *take(void *argument)
{
    long number = (long)argument;
    pthread_mutex_lock(&shared.lock);
    held = 1;
    pthread_mutex_lock(&first); // waiting
    return (void *)number;
}

NOINLINE static int heap(int count)
{
    struct list *items = calloc(4, sizeof *items), *untouched = malloc(sizeof *untouched);
    items[1].name = "item";
    struct list seen = items[1];
    untouched->value = count;
    return *(volatile int *)(long)count + items->value + seen.value + untouched->value; // heap
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "list";
    if (!strcmp(how, "free"))
        give_back(malloc(40));
    if (!strcmp(how, "jump"))
        call((void (*)(void))0x1234567, "never");
    if (!strcmp(how, "heap"))
        return heap(3);
    if (!strcmp(how, "hang")) {
        pthread_t thread;
        pthread_mutex_lock(&first);
        pthread_create(&thread, NULL, take, (void *)77L);
        while (!held)
            ;
        puts("locked");
        fflush(stdout);
        pthread_mutex_lock(&shared.lock);
    }
    struct list second = { NULL, "second", 2, 0 };
    struct list *start = malloc(sizeof *start);
    *start = (struct list){ &second, "first", 40, 0 };
    return total(start);
}
