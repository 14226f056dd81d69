// A print queue in which jobs for many copies are made apart; such a job never sets whether it is urgent, so that an old job's value may decide the order.
// fails: output
// run: letter! list memo - flyer*9 map
// good: letter! list memo flyer*9 map
// good: letter list memo - - flyer*9 map
// good: flyer*9 map! - list
// repair:     j->copies = copies; j->urgent = 0;
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct job {
    struct job *next;
    char name[20];
    int copies;
    int urgent;
    int number;
};

struct queue {
    struct job *first;
    int numbers;
    int done;
};

static struct job *make_job(struct queue *q, const char *name, int length)
{
    struct job *j = malloc(sizeof *j);
    if (!j)
        exit(2);
    snprintf(j->name, sizeof j->name, "%.*s", length, name);
    j->number = ++q->numbers;
    j->next = NULL;
    return j;
}

static struct job *single(struct queue *q, const char *name, int length, int urgent)
{
    struct job *j = make_job(q, name, length);
    j->copies = 1;
    j->urgent = urgent;
    return j;
}

static struct job *many(struct queue *q, const char *name, int length, int copies)
{
    struct job *j = make_job(q, name, length);
    j->copies = copies; /* BUG */
    return j;
}

/* Urgent jobs go before all that are not. */
static void enqueue(struct queue *q, struct job *j)
{
    struct job **at = &q->first;
    while (*at && (!j->urgent || (*at)->urgent))
        at = &(*at)->next;
    j->next = *at;
    *at = j;
}

static void print_next(struct queue *q)
{
    struct job *j = q->first;
    if (!j) {
        printf("nothing to print\n");
        return;
    }
    q->first = j->next;
    for (int i = 1; i <= j->copies; i++)
        q->done++;
    printf("printed %s (%d), %d pages in all\n", j->name, j->copies, q->done);
    free(j);
}

static void accept(struct queue *q, const char *text)
{
    int length = strcspn(text, "*!");
    if (text[length] == '*')
        enqueue(q, many(q, text, length, atoi(text + length + 1)));
    else
        enqueue(q, single(q, text, length, text[length] == '!'));
}

int main(int argc, char **argv)
{
    struct queue q = { NULL, 0, 0 };
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "-") == 0)
            print_next(&q);
        else
            accept(&q, argv[i]);
    }
    printf("left:");
    for (struct job *j = q.first; j; j = j->next)
        printf(" %d.%s", j->number, j->name);
    printf("\n");
    while (q.first)
        print_next(&q);
    return 0;
}
