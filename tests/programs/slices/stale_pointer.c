// A stale pointer after realloc: the first task is changed where it was before the list grew.
// fails: output
// slice: full
// repair: first = list.tasks; first->priority = 9;
#include <stdio.h>
#include <stdlib.h>

struct task {
    int number, priority;
};

struct list {
    struct task *tasks;
    int used, room, grown;
};

static struct task *add(struct list *list, int priority) {
    if (list->used == list->room) {
        list->room = list->room * 2 + 1;
        list->tasks = realloc(list->tasks, (size_t)list->room * sizeof *list->tasks); /* BUG */
        list->grown++; /* NOT */
        // Keeps the block from growing in place.
        if (!malloc(16))
            abort();
    }
    struct task *task = &list->tasks[list->used++];
    task->number = list->used;
    task->priority = priority;
    return task;
}

static int urgent(const struct list *list) {
    int all = 0;
    for (int i = 0; i < list->used; i++)
        all += list->tasks[i].priority;
    return all;
}

int main(void) {
    struct list list = {0};
    struct task *first = add(&list, 1);
    for (int i = 2; i < 9; i++)
        add(&list, i % 3);
    first->priority = 9; /* REPAIR */
    printf("grown %d times\n", list.grown);
    printf("urgent %d\n", urgent(&list));
    return 0;
}
