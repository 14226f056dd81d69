// A handler takes the fault, reports it, and ends the program: what is wrong is at the fault.
// run: 0
// run: 1
// run: 2
// run: 3
// says: the address that
// says: (SIGSEGV)
// among: 3
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
struct node {
    struct node *next;
    int value;
};
static int how;
static void crashed(int number, siginfo_t *info, void *context) {
    char text[80];
    int length = snprintf(text, sizeof text, "crash: signal %d at %p\n", number, info->si_addr);
    write(2, text, length);
    signal(number, SIG_DFL);
    if (how == 0)
        raise(number);
    if (how == 1)
        return;
    if (how == 2)
        _exit(70);
    abort();
}
static struct node *make(int count) {
    struct node *first = NULL;
    while (count--) {
        struct node *one = malloc(sizeof *one);
        one->value = count;
        one->next = first;
        first = one;
    }
    return first;
}
static void cut(struct node *at, int count) {
    while (count--)
        at = at->next;
    at->next = (struct node *)0x1234; /* BUG */
}
static int sum(struct node *at) {
    int all = 0;
    for (; at; at = at->next)
        all += at->value;
    return all;
}
int main(int argc, char **argv) {
    how = atoi(argv[1]);
    struct sigaction action = {.sa_sigaction = crashed, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &action, NULL);
    struct node *all = make(10);
    printf("%d\n", sum(all));
    cut(all, 4);
    printf("%d\n", sum(all));
}
