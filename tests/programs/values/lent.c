// Has a shell run a command, by a child that has its memory (posix_spawn), in the middle of its work.
#include "items.h"

static int work(int which) {
    return items[which].number;
}

int main(int count, char **arguments) {
    const char *city = "Lisbon";
    long squares[6];
    prepare(squares);
    int status = system("exit 3");
    printf("%d %d\n", work(1), status);
    return 0;
}
