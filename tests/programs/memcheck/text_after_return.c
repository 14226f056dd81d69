// Prints a text that was made in a function that has returned.
// finds: read none 0
// frame: 0 text greeting
#include <stdio.h>
#include <string.h>

static char *made;

__attribute__((noinline)) static void greeting(const char *name) {
    char text[200];
    snprintf(text, sizeof text, "Good day, %s.", name);
    made = text;
}

int main(void) {
    greeting("everybody");
    puts(made); /* HERE */
    return 0;
}
