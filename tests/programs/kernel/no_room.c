// Another process takes all room for further memory from this one, which then starts a thread on a stack that it has: there is no memory for
// the recorder of that thread. Recording ends, and the program does not.
// flags: -pthread
// message: there is no address space left for another thread
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
static char stack[1 << 20] __attribute__((aligned(4096)));
static void *run(void *unused) {
    write(1, "thread\n", 7) == 7 || (abort(), 0);
    return unused;
}
int main(void) {
    memset(stack, 1, sizeof stack);
    // What the C library keeps of a thread is there already.
    void *volatile room = malloc(64 << 10);
    free(room);
    pid_t child = fork();
    if (!child) {
        struct rlimit least = {4096, 4096};
        _exit(prlimit(getppid(), RLIMIT_AS, &least, NULL) != 0);
    }
    int status;
    waitpid(child, &status, 0);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstack(&attributes, stack, sizeof stack);
    pthread_t thread;
    int error = pthread_create(&thread, &attributes, run, NULL);
    if (!error)
        pthread_join(thread, NULL);
    const char *said = status || error ? "no\n" : "ok\n";
    write(1, said, 3) == 3 || (abort(), 0);
    return 0;
}
