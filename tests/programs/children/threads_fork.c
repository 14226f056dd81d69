/* A process with threads forks and executes. */
#include <pthread.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile int stop;
static volatile long counter;

static void *work(void *unused) {
    while (!stop) __sync_fetch_and_add(&counter, 1);
    return unused;
}

int main(void) {
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, work, NULL);
    for (int i = 0; i < 4; i++) {
        pid_t child = fork();
        if (child == 0) {
            long before = counter;
            counter += 5;
            if (i % 2) execl("/bin/echo", "echo", "child", (char *)NULL);
            _exit(counter - before == 5 ? 10 + i : 1);
        }
        int status;
        waitpid(child, &status, 0);
        printf("%d\n", WEXITSTATUS(status));
        fflush(stdout);
    }
    stop = 1;
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    return 0;
}
