// A print server takes jobs from a heap, the most urgent first; a new job never rises from the second place of the heap to the top.
// fails: output
// run: 2 draft:0:9:1 menu:1:4:5 poster:1:8:7 letter:2:3:2 bill:3:1:9 book:3:20:4 memo:5:2:6 flyer:12:3:8
// good: 2 draft:0:9:1 memo:1:4:7 poster:2:8:2 letter:9:3:9 bill:13:1:9
// good: 1 a:0:5:3 b:1:5:9 c:2:5:7 d:3:5:8 e:4:5:1
// good: 1 one:0:2:1 two:3:2:2 three:6:2:3 four:9:2:4
// good: 3 p:0:6:2 q:0:6:2 r:0:6:2 s:1:4:8 t:2:4:1 u:3:1:9
// repair: while (i > 0 && before(q->items[i], q->items[(i - 1) / 2])) {
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_JOBS 64
#define MAX_PRINTERS 4

struct job {
    char name[24];
    int arrival;
    int pages;
    int urgency;
    int number;
    int started;
    int finished;
};

struct queue {
    struct job *items[MAX_JOBS];
    int count;
};

struct printer {
    struct job *job;
    int left;
    int busy_minutes;
};

static struct job jobs[MAX_JOBS];
static int job_count;

/* Urgent jobs go first, then those that came first. */
static int before(const struct job *a, const struct job *b)
{
    if (a->urgency != b->urgency)
        return a->urgency > b->urgency;
    return a->number < b->number;
}

static void swap(struct queue *q, int a, int b)
{
    struct job *t = q->items[a];
    q->items[a] = q->items[b];
    q->items[b] = t;
}

static void put(struct queue *q, struct job *j)
{
    int i = q->count++;
    q->items[i] = j;
    while (i > 1 && before(q->items[i], q->items[(i - 1) / 2])) { /* BUG */
        swap(q, i, (i - 1) / 2);
        i = (i - 1) / 2;
    }
}

static struct job *take(struct queue *q)
{
    struct job *top = q->items[0];
    int i = 0, kid = 1;

    q->items[0] = q->items[--q->count];
    while (kid < q->count) {
        if (kid + 1 < q->count && before(q->items[kid + 1], q->items[kid]))
            kid++;
        if (!before(q->items[kid], q->items[i]))
            break;
        swap(q, i, kid);
        i = kid;
        kid = 2 * i + 1;
    }
    return top;
}

static void read_job(const char *text)
{
    struct job *j = &jobs[job_count];
    if (job_count == MAX_JOBS || sscanf(text, "%23[^:]:%d:%d:%d", j->name, &j->arrival, &j->pages, &j->urgency) != 4) {
        fprintf(stderr, "jobs: bad job '%s'\n", text);
        exit(2);
    }
    j->number = job_count++;
    j->started = j->finished = -1;
}

static void feed(struct printer *p, struct queue *q, int now)
{
    if (p->job || q->count == 0)
        return;
    p->job = take(q);
    p->left = p->job->pages;
    p->job->started = now;
}

static int work(struct printer *p, int now)
{
    if (!p->job)
        return 0;
    p->busy_minutes++;
    if (--p->left > 0)
        return 0;
    p->job->finished = now + 1;
    p->job = NULL;
    return 1;
}

static int simulate(struct printer *printers, int printer_count)
{
    struct queue q = {.count = 0};
    int done = 0, now = 0;

    while (done < job_count) {
        for (int i = 0; i < job_count; i++)
            if (jobs[i].arrival == now)
                put(&q, &jobs[i]);
        for (int i = 0; i < printer_count; i++)
            feed(&printers[i], &q, now);
        for (int i = 0; i < printer_count; i++)
            done += work(&printers[i], now);
        now++;
    }
    return now;
}

static int by_end(const void *a, const void *b)
{
    const struct job *x = a, *y = b;
    if (x->finished != y->finished)
        return x->finished - y->finished;
    return x->number - y->number;
}

static void report(const struct printer *printers, int printer_count, int end)
{
    long waited = 0;
    int longest = 0;

    qsort(jobs, job_count, sizeof jobs[0], by_end);
    printf("%-12s %6s %6s %6s\n", "job", "start", "end", "wait");
    for (int i = 0; i < job_count; i++) {
        int wait = jobs[i].started - jobs[i].arrival;
        printf("%-12s %6d %6d %6d\n", jobs[i].name, jobs[i].started, jobs[i].finished, wait);
        waited += wait * jobs[i].urgency;
        if (wait > longest)
            longest = wait;
    }
    printf("weighted wait %ld, longest %d\n", waited, longest);
    for (int i = 0; i < printer_count; i++)
        printf("printer %d busy %d of %d\n", i + 1, printers[i].busy_minutes, end);
}

int main(int argc, char **argv)
{
    struct printer printers[MAX_PRINTERS] = {0};

    if (argc < 3 || atoi(argv[1]) < 1 || atoi(argv[1]) > MAX_PRINTERS) {
        fprintf(stderr, "usage: jobs PRINTERS NAME:ARRIVAL:PAGES:URGENCY...\n");
        return 2;
    }
    for (int i = 2; i < argc; i++)
        read_job(argv[i]);
    int end = simulate(printers, atoi(argv[1]));
    report(printers, atoi(argv[1]), end);
    return 0;
}
