// Operations on atomic variables for which the compiler takes plain instructions.
#include "races.h"
#include <stdatomic.h>

struct message {
    int number;
    atomic_int is_there;
} *message;
int answer, has_answer;
static atomic_bool is_over;
long result;

static void *ask(void *unused)
{
    message->number = 20; atomic_store_explicit(&message->is_there, 1, memory_order_release);
    while (!__atomic_load_n(&has_answer, __ATOMIC_ACQUIRE))
        ;
    result = answer;
    atomic_store_explicit(&is_over, 1, memory_order_release);
    return unused;
}

static void *give(void *unused)
{
    while (!atomic_load_explicit(&message->is_there, memory_order_acquire))
        ;
    answer = message->number + 1;
    __atomic_store_n(&has_answer, answer, __ATOMIC_RELEASE);
    while (!is_over)
        ;
    return result == 21 ? unused : &answer;
}

int main(void)
{
    message = calloc(1, sizeof *message);
    run_two(ask, give, NULL);
    free(message);
    return result != 21;
}
