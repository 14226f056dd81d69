/* A thread waits in a loop for a spinlock: then it holds it once, and gives it back once. Both take two of these in the same order. */
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

static pthread_spinlock_t outer, inner;
static atomic_int is_taken;

static void both(void)
{
    pthread_spin_lock(&outer);
    pthread_spin_lock(&inner);
    pthread_spin_unlock(&inner);
    pthread_spin_unlock(&outer);
}

static void *waits(void *unused)
{
    while (!atomic_load(&is_taken))
        usleep(100);
    pthread_spin_lock(&inner);
    pthread_spin_unlock(&inner);
    both();
    return unused;
}

int main(void)
{
    pthread_t thread;
    pthread_spin_init(&outer, PTHREAD_PROCESS_PRIVATE);
    pthread_spin_init(&inner, PTHREAD_PROCESS_PRIVATE);
    pthread_create(&thread, NULL, waits, NULL);
    both();
    pthread_spin_lock(&inner);
    atomic_store(&is_taken, 1);
    usleep(20000);
    pthread_spin_unlock(&inner);
    both();
    pthread_join(thread, NULL);
    return 0;
}
