// Handlers on an alternate stack.
#include "case.h"
static char *stack;
static volatile int on_it, depth;
static int flags_inside;
static void handler(int s, siginfo_t *i, void *c) {
    char here;
    stack_t now;
    EXPECT(sigaltstack(NULL, &now) == 0);
    flags_inside = now.ss_flags;
    on_it = &here > stack && &here < stack + 65536;
    ucontext_t *u = c;
    EXPECT(u->uc_stack.ss_sp == stack && u->uc_stack.ss_size == 65536);
    if (depth++ == 0)
        raise(SIGUSR2); // on the same stack, further down
}
int main(void) {
    stack = malloc(65536);
    stack_t s = {.ss_sp = stack, .ss_size = 65536};
    EXPECT(sigaltstack(&s, NULL) == 0);
    on(SIGUSR1, handler, SA_ONSTACK);
    on(SIGUSR2, handler, SA_ONSTACK);
    raise(SIGUSR1);
    EXPECT(on_it && depth == 2);
    printf("%d\n", flags_inside);
    on(SIGUSR1, handler, 0);
    raise(SIGUSR1);
    EXPECT(!on_it);
    printf("%d\n", flags_inside);
    s.ss_flags = SS_DISABLE;
    EXPECT(sigaltstack(&s, NULL) == 0);
    stack_t now;
    EXPECT(sigaltstack(NULL, &now) == 0 && now.ss_flags == SS_DISABLE);
    s.ss_flags = 0, s.ss_size = 100;
    EXPECT(sigaltstack(&s, NULL) == -1 && errno == ENOMEM);
    puts("done");
}
