// A structure is written to a pipe of which a member was not set.
// finds: argument heap

#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

struct message {
    int kind;
    int length;
    char text[8];
};

int main(void) {
    int ends[2];
    struct message *message = malloc(sizeof *message);
    if (pipe(ends) != 0)
        return 1;
    message->kind = 1;
    for (int i = 0; i < 8; i++)
        message->text[i] = 'a' + i;
    syscall(SYS_write, ends[1], message, sizeof *message); /* HERE */
    free(message);
    return 0;
}
