// The result is read before the thread that computes it was waited for.
// race: result
#include "races.h"

int result;

static void *compute(void *unused)
{
    result = 7; /* RACE */
    return unused;
}

int main(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, compute, NULL);
    usleep(20000);
    int early = result; /* RACE */
    pthread_join(thread, NULL);
    return early > 7;
}
