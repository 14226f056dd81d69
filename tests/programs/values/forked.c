// A server that prepares what its children work with: its child looks at a part of it only, and exits: nothing has its memory as it was then.
#include "items.h"
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *title = "shop";

static int work(int which, const char *why) {
    char label[16];
    snprintf(label, sizeof label, "item %d", which);
    return strlen(label) > 3 && *why ? items[which].number : 0;
}

static void serve(int client, char **arguments) {
    int state[4] = {client, 2, 3, client * 4};
    // Its own change of what its parent had.
    items[2].number = -state[0];
    _exit(work(1, "asked") == 101 ? state[1] : arguments == NULL);
}

int main(int count, char **arguments) {
    const char *city = "Lisbon";
    long squares[6];
    prepare(squares);
    pid_t child = fork();
    if (child == 0)
        serve(7, arguments);
    // What the parent changes from here on is no child's.
    items[3].number = table[3] = 999;
    squares[4] = -1;
    waitpid(child, NULL, 0);
    return squares[1] == 1 && strcmp(city, title) ? 0 : count;
}
