// Use after free: a reader has looked up the session that the other thread then frees, and whose memory is used again.
#include "rare.h"

struct session {
    const char *name;
    char rest[56];
};

struct session *volatile current;
volatile size_t length;

static void *reader(void *unused)
{
    work(3000);
    struct session *session = current;
    if (session)
        length = strlen(session->name);
    return unused;
}

static void *closer(void *unused)
{
    work(3000);
    struct session *session = current;
    current = NULL;
    free(session);
    memset(malloc(sizeof *session), 0x55, sizeof *session);
    return unused;
}

int main(void)
{
    current = malloc(sizeof *current);
    current->name = "guest";
    run_two(reader, closer);
    return 0;
}
