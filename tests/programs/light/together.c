// Processes that share memory, in all the ways in which they wait for each other there: a mutex and a condition variable, a semaphore, words that are only looked at, and a barrier of
// their own. Who comes when is not the same in any two runs, and is printed. With `file`, the memory is a file's; with
// `opened`, each opens that by itself, and one that the first of them makes; with `stranger`, a process opens it that shares no memory; with
// `attached`, a segment of System V, which one of them detaches in the end, and which with `twice`, the first one attaches twice; with `killed`, one of them is killed as it waits; with `threads`,
// each has two threads; with `executes`, each executes another program in the end; with `ends`, one of them does with the memory what is not followed, while others go on.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PROCESSES = 3, ROUNDS = 200, TAKEN = 4096 };

static struct shared {
    pthread_mutex_t mutex;
    pthread_cond_t condition;
    sem_t semaphore;
    atomic_int arrived, made, turn, taken;
    int total;
    unsigned char who[TAKEN];
} *shared;

static void take(int own)
{
    shared->who[atomic_fetch_add(&shared->taken, 1) % TAKEN] = (unsigned char)own;
}

static void *work(void *argument)
{
    int own = (int)(long)argument;
    for (int i = 0; i < ROUNDS; i++) {
        pthread_mutex_lock(&shared->mutex);
        shared->total += own + 1;
        pthread_mutex_unlock(&shared->mutex);
        if (i % 8 == own) {
            sem_wait(&shared->semaphore);
            take(own);
            sem_post(&shared->semaphore);
        }
        for (volatile int spent = 0; spent < 2000; spent++)
            ;
        take(own);
    }
    return NULL;
}

static void *map(const char *name, int flags)
{
    int file = open(name, O_RDWR | flags, 0600);
    if (file < 0 || (flags != 0 && ftruncate(file, sizeof *shared) != 0))
        return MAP_FAILED;
    void *memory = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    return memory;
}

// Each maps the memory by itself, and that of a file which the first one makes.
static int open_all(int own)
{
    void *before = shared;
    shared = map("memory", 0);
    if (shared == MAP_FAILED || munmap(before, sizeof *shared) != 0)
        return 0;
    while (own > 0 && atomic_load(&shared->made) == 0)
        usleep(1000);
    volatile char *late = map("late", own == 0 ? O_CREAT | O_EXCL : 0);
    if (late == MAP_FAILED)
        return 0;
    if (own == 0)
        late[5000] = 5;
    atomic_store(&shared->made, 1);
    return late[5000] == 5;
}

static int child(int own, const char *how)
{
    if (strcmp(how, "opened") == 0 && !open_all(own))
        return 50;
    // Nobody begins before all are there; they only look.
    atomic_fetch_add(&shared->arrived, 1);
    while (atomic_load(&shared->arrived) < PROCESSES)
        ;
    pthread_t other;
    int threads = strcmp(how, "threads") == 0;
    if (threads && pthread_create(&other, NULL, work, (void *)(long)(own + PROCESSES)) != 0)
        return 1;
    work((void *)(long)own);
    if (own == 0 && strcmp(how, "ends") == 0)
        mremap(shared, sizeof *shared, sizeof *shared, 0);
    if (threads)
        pthread_join(other, NULL);
    // One after the other.
    pthread_mutex_lock(&shared->mutex);
    while (atomic_load(&shared->turn) != own)
        pthread_cond_wait(&shared->condition, &shared->mutex);
    atomic_store(&shared->turn, own + 1);
    pthread_cond_broadcast(&shared->condition);
    pthread_mutex_unlock(&shared->mutex);
    if (strcmp(how, "attached") == 0 && own == 1 && shmdt(shared) != 0)
        return 1;
    if (strcmp(how, "executes") == 0)
        execl("/bin/true", "true", (char *)NULL);
    return own;
}

// What was written when nobody else had it is there when it is attached again.
static void *attach(int twice)
{
    int id = shmget(IPC_PRIVATE, sizeof *shared, IPC_CREAT | 0600);
    unsigned char *byte, *memory = shmat(id, NULL, 0);
    if (memory == (void *)-1)
        return MAP_FAILED;
    memory[sizeof *shared - 1] = 7;
    shmdt(memory);
    memory = shmat(id, NULL, 0);
    byte = memory + sizeof *shared - 1;
    if (twice)
        *(volatile char *)shmat(id, NULL, 0) = 0;
    shmctl(id, IPC_RMID, NULL);
    if (memory == (void *)-1 || *byte != 7)
        return MAP_FAILED;
    *byte = 0;
    return memory;
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "";
    int twice = strcmp(how, "twice") == 0, is_file = strcmp(how, "file") == 0 || strcmp(how, "opened") == 0 || strcmp(how, "stranger") == 0;
    if (twice || strcmp(how, "attached") == 0)
        shared = attach(twice);
    else if (is_file)
        shared = map("memory", O_CREAT | O_EXCL);
    else
        shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return 1;
    pthread_mutexattr_t mutex;
    pthread_mutexattr_init(&mutex);
    pthread_mutexattr_setpshared(&mutex, PTHREAD_PROCESS_SHARED);
    pthread_mutex_init(&shared->mutex, &mutex);
    pthread_condattr_t condition;
    pthread_condattr_init(&condition);
    pthread_condattr_setpshared(&condition, PTHREAD_PROCESS_SHARED);
    pthread_cond_init(&shared->condition, &condition);
    sem_init(&shared->semaphore, 1, 1);
    pid_t waits = 0;
    if (strcmp(how, "killed") == 0) {
        waits = fork();
        if (waits == 0) {
            pause();
            return 1;
        }
    }
    for (int own = 0; own < PROCESSES; own++)
        if (fork() == 0)
            return child(own, how);
    if (waits != 0) {
        usleep(10000);
        kill(waits, SIGKILL);
    }
    int status, sum = 0;
    if (strcmp(how, "stranger") == 0 && system("cat memory >copy") != 0)
        return 1;
    while (wait(&status) > 0)
        sum += WIFEXITED(status) ? WEXITSTATUS(status) : 100;
    unsigned order = 0;
    for (int i = 0; i < TAKEN; i++)
        order = order * 31 + shared->who[i];
    printf("%d %d %d %u\n", shared->total, atomic_load(&shared->taken), sum, order);
    // What each adds, over all, does not depend on the order.
    int workers = PROCESSES * (strcmp(how, "threads") == 0 ? 2 : 1), total = ROUNDS * workers * (workers + 1) / 2;
    int ended = strcmp(how, "executes") == 0 ? 0 : PROCESSES * (PROCESSES - 1) / 2 + (waits != 0 ? 100 : 0);
    int rare = workers * ROUNDS / 8;
    return shared->total != total || atomic_load(&shared->taken) != workers * ROUNDS + rare || sum != ended;
}
