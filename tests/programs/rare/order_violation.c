// A thread uses what its parent sets only once the thread has been made, and sleeps before it, which is to be long enough.
#include "rare.h"

const char *volatile greeting;
volatile size_t length;

static void *use(void *unused)
{
    usleep(5000);
    length = strlen(greeting);
    return unused;
}

int main(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, use, NULL);
    greeting = "hello";
    pthread_join(thread, NULL);
    return 0;
}
