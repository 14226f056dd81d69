/* Forces among bodies in the style of SPLASH's barnes: all threads put their bodies into one tree, whose nodes have locks
 * of their own; then each walks the tree for its bodies, far parts of it as one body.
 *
 * flags: -lm
 * test: 3 60 2
 * soak: 4 2000 3
 */
#include "threads.h"
#include <math.h>

enum { DEEPEST = 40 };

struct node {
    pthread_spinlock_t lock;
    double x, y, half;
    /* Of all bodies in it; integers, so that their order does not matter. */
    atomic_long mass, moment_x, moment_y;
    /* The only body, or -1 for none, or -2 where there are children. */
    long body;
    struct node *children[4];
};

static struct body { double x, y, speed_x, speed_y; } *bodies;
static long threads, count, steps;
static struct node *root;
static pthread_barrier_t barrier;

static struct node *new_node(double x, double y, double half)
{
    struct node *node = calloc(1, sizeof *node);
    pthread_spin_init(&node->lock, PTHREAD_PROCESS_PRIVATE);
    node->x = x;
    node->y = y;
    node->half = half;
    node->body = -1;
    return node;
}

static struct node *child(struct node *node, const struct body *body)
{
    int right = body->x >= node->x, up = body->y >= node->y;
    struct node **child = &node->children[2 * up + right];
    double half = node->half / 2;
    if (!*child)
        *child = new_node(node->x + (right ? half : -half), node->y + (up ? half : -half), half);
    return *child;
}

static void insert(struct node *node, long number, int depth)
{
    struct node *next = NULL;
    long pushed = -1;
    pthread_spin_lock(&node->lock);
    if (node->body == -1) {
        node->body = number;
    } else if (depth < DEEPEST) {
        if (node->body >= 0) {
            pushed = node->body;
            node->body = -2;
            child(node, &bodies[pushed]);
        }
        next = child(node, &bodies[number]);
    }
    if (pushed >= 0)
        insert(child(node, &bodies[pushed]), pushed, depth + 1);
    pthread_spin_unlock(&node->lock);
    if (next)
        insert(next, number, depth + 1);
}

/* Each body counts in every node that it lies in. */
static void weigh(struct node *node, long number)
{
    while (node) {
        const struct body *body = &bodies[number];
        atomic_fetch_add(&node->mass, 1);
        atomic_fetch_add(&node->moment_x, (long)(body->x * 1e6));
        atomic_fetch_add(&node->moment_y, (long)(body->y * 1e6));
        node = node->body == -2 ? node->children[2 * (body->y >= node->y) + (body->x >= node->x)] : NULL;
    }
}

static void attract(const struct node *node, struct body *body)
{
    if (!node || !node->mass)
        return;
    double mass = (double)node->mass;
    double x = (double)node->moment_x / 1e6 / mass - body->x, y = (double)node->moment_y / 1e6 / mass - body->y;
    double distance = sqrt(x * x + y * y) + 0.01;
    if (node->body != -2 || node->half < distance / 2) {
        double force = mass / (distance * distance * distance);
        body->speed_x += x * force * 1e-6;
        body->speed_y += y * force * 1e-6;
        return;
    }
    for (int i = 0; i < 4; i++)
        attract(node->children[i], body);
}

static void forget(struct node *node)
{
    for (int i = 0; node && i < 4; i++)
        forget(node->children[i]);
    free(node);
}

static double clamp(double x)
{
    return x < -1 ? -1 : x > 1 ? 1 : x;
}

static void *run(void *number)
{
    long n = (long)number, first = count * n / threads, last = count * (n + 1) / threads;
    for (long step = 0; step < steps; step++) {
        if (!n) {
            forget(root);
            root = new_node(0, 0, 1);
        }
        pthread_barrier_wait(&barrier);
        for (long i = first; i < last; i++)
            insert(root, i, 0);
        pthread_barrier_wait(&barrier);
        for (long i = first; i < last; i++)
            weigh(root, i);
        pthread_barrier_wait(&barrier);
        for (long i = first; i < last; i++)
            attract(root, &bodies[i]);
        pthread_barrier_wait(&barrier);
        for (long i = first; i < last; i++) {
            bodies[i].x = clamp(bodies[i].x + bodies[i].speed_x);
            bodies[i].y = clamp(bodies[i].y + bodies[i].speed_y);
        }
        pthread_barrier_wait(&barrier);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    threads = argument(argc, argv, 1, 2);
    count = argument(argc, argv, 2, 100);
    steps = argument(argc, argv, 3, 2);
    bodies = calloc((size_t)count, sizeof *bodies);
    for (long i = 0; i < count; i++) {
        bodies[i].x = (double)((i + 1) * 7919 % 2003) / 1001.5 - 1;
        bodies[i].y = (double)((i + 1) * 104729 % 1999) / 999.5 - 1;
    }
    pthread_barrier_init(&barrier, NULL, (unsigned)threads);
    run_threads((int)threads, run);
    ENSURE(root->mass == count);
    double sum = 0;
    for (long i = 0; i < count; i++)
        sum += bodies[i].x * (double)(i + 1) + bodies[i].y;
    printf("%.9f\n", sum);
}
