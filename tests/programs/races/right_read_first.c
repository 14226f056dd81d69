// A thread that reads from a pipe is made before the one that writes, and they share nothing before: an order of the threads that only agrees with
// what they have seen of each other's memory lets the first one go on behind its read before the second one has written.
#include "races.h"

struct message {
    int number;
    struct message *next;
} __attribute__((aligned(4096)));

struct message messages[4];
int ends[2] __attribute__((aligned(4096)));

static void *take(void *unused)
{
    struct message *message;
    int sum = 0;
    while (read(ends[0], &message, sizeof message) == sizeof message)
        for (; message; message = message->next)
            sum += message->number;
    return sum == 14 ? unused : &ends;
}

static void *give(void *unused)
{
    for (int i = 0; i < 4; i += 2) {
        struct message *message = &messages[i];
        message[0].number = 3;
        message[1].number = 4;
        message[0].next = &message[1];
        if (write(ends[1], &message, sizeof message) != sizeof message)
            abort();
    }
    close(ends[1]);
    return unused;
}

int main(void)
{
    if (pipe2(ends, 0))
        return 1;
    run_two(take, give, NULL);
    return 0;
}
