// ThreadSanitizer: it wants to find nothing of others' in most of the address space, takes all of that for itself, and sees a race.
// flags: -fsanitize=thread -pthread
// intervals: no
#include "case.h"
#include <pthread.h>
const char *__tsan_default_options(void) { return "log_path=/dev/null:symbolize=0:exitcode=66"; }
static int counter;
static void *count(void *arg) {
    for (int i = 0; i < 1000; i++)
        counter++;
    return arg;
}
int main(void) {
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        EXPECT(pthread_create(&threads[i], NULL, count, NULL) == 0);
    for (int i = 0; i < 2; i++)
        EXPECT(pthread_join(threads[i], NULL) == 0);
    puts("end");
    return 0;
}
