// A double free, which the allocator finds: a message that is in two queues is freed with each of them.
// fails: SIGABRT
// slice: full
// repair: if (--message->users == 0) { free(message); }
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct message {
    int users;
    char text[32];
};

struct queue {
    struct message *messages[4];
    int used;
};

static struct message *message(const char *text) {
    struct message *message = malloc(sizeof *message);
    message->users = 0;
    strcpy(message->text, text);
    return message;
}

static void send(struct queue *queue, struct message *message) {
    message->users++; /* NOT */
    queue->messages[queue->used++] = message;
}

static void drop(struct message *message) {
    free(message); /* BUG */
}

static void clear(struct queue *queue) {
    for (int i = 0; i < queue->used; i++)
        drop(queue->messages[i]);
    queue->used = 0;
}

struct queue first, second;

int main(void) {
    struct message *both = message("to both");
    send(&first, message("to one"));
    send(&first, both);
    send(&second, both);
    clear(&first);
    clear(&second);
    puts("all is freed");
    return 0;
}
