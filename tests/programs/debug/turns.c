/* Two threads write lines in turns. */
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int turn;

static void *write_lines(void *name)
{
    int own = *(const char *)name - 'a';
    for (int i = 0; i < 20; i++) {
        char line[20];
        pthread_mutex_lock(&mutex);
        while (turn % 2 != own)
            pthread_cond_wait(&changed, &mutex);
        write(1, line, sprintf(line, "%s%d.\n", (const char *)name, i));
        turn++;
        pthread_cond_signal(&changed);
        pthread_mutex_unlock(&mutex);
    }
    return name;
}

int main(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, write_lines, "b");
    write_lines("a");
    pthread_join(thread, NULL);
    return 0;
}
