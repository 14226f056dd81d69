// A check ends the program by a trap, which takes no values: the condition that led there is what is wrong.
// run: ud2
// run: int3
// run: handled
// says: the condition by which
// says: was reached (SIG
// among: 3
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
static char title[16] = "none";
static int limit = 10;
static void set_title(const char *text) {
    strcpy(title, text); /* BUG */
}
static void failed(int number) {
    _exit(3);
}
int main(int argc, char **argv) {
    if (strcmp(argv[1], "handled") == 0)
        signal(SIGILL, failed);
    set_title("a title that is too long");
    if (limit != 10) {
        if (strcmp(argv[1], "int3") == 0)
            __asm__("int3");
        __builtin_trap();
    }
    printf("%s %d\n", title, limit);
}
