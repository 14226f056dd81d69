// Ids of threads that have ended come again: in a pid namespace of its own, where the next id can be named, each of twelve
// threads, one after the other, has one of two ids.
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
enum { SKIP = 77 };
static long sum;
static void *add(void *number) { sum = sum * 3 + (long)number; return (void *)syscall(SYS_gettid); }
static int next_is(const char *id, int len) {
    int file = open("/proc/sys/kernel/ns_last_pid", O_WRONLY);
    if (file < 0) return 0;
    int written = write(file, id, len) == len;
    close(file);
    return written;
}
static int child(void) {
    if (!next_is("99", 2)) { puts("the next thread id cannot be named here"); return SKIP; }
    for (long i = 0; i < 12; i++) {
        int named = i % 3 == 2 ? next_is("199", 3) : next_is("99", 2);
        pthread_t thread; void *id;
        if (!named || pthread_create(&thread, NULL, add, (void *)i) || pthread_join(thread, &id)) return 2;
        printf("thread %ld has id %ld\n", i, (long)id);
    }
    printf("%ld\n", sum);
    return 0;
}
int main(void) {
    if (unshare(CLONE_NEWPID)) { puts("no pid namespace can be made here"); return SKIP; }
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) { int status = child(); fflush(stdout); _exit(status); }
    int status;
    if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status)) return 2;
    return WEXITSTATUS(status);
}
