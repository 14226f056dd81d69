/* What a child of vfork stores before it executes its program, in a process with several threads: the dynamic loader counts the
   functions that it looks up for the child, and then those for another thread, which nothing orders with the child's parent, and for
   one that comes behind. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int shared = 1;

static void *lends(void *unused) {
    if (vfork() == 0) {
        shared = 2;
        usleep(1000);
        execl("/bin/sleep", "sleep", "0.1", (char *)NULL);
        _exit(1);
    }
    wait(NULL);
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, lends, NULL);
    usleep(400000);
    printf("%d\n", getppid() > 0);
    pthread_join(thread, NULL);
    printf("%d %d\n", shared, atoi("3") + (strpbrk("abc", "c") != NULL));
    return 0;
}
