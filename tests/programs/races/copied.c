// A structure is copied by the C library while another thread changes it.
// race: state
// flags: -fno-builtin
#include "races.h"

struct state {
    char text[256];
    int version;
} state;

static void *change(void *unused)
{
    state.text[100] = 'x'; /* RACE */
    return unused;
}

static void *copy(void *unused)
{
    struct state *own = malloc(sizeof *own);
    memcpy(own, &state, sizeof *own);
    free(own);
    return unused;
}

int main(void)
{
    run_two(change, copy, NULL);
    return 0;
}
