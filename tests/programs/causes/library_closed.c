// A library was closed of which the program still uses something: its data, or its code, with or without a handler.
// compiler: sh -c 'gcc -DPLUGIN -O0 -g -shared -fPIC -o "$(dirname "$1")/plugin.so" "$2" && gcc -O0 -g -o "$1" "$2"' sh
// run: data
// run: code
// run: handled
// says: was taken away by munmap, in dlclose, at
// never: finds no room on the stack
// among: 1
#ifdef PLUGIN
const char *const name = "plugin";
int twice(int number) { return 2 * number; }
#else
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static void handler(int number, siginfo_t *info, void *context) {
    printf("signal %d: %p cannot be accessed\n", number, info->si_addr);
    exit(3);
}
int main(int argc, char **argv) {
    if (!strcmp(argv[1], "handled"))
        sigaction(SIGSEGV, &(struct sigaction){.sa_sigaction = handler, .sa_flags = SA_SIGINFO}, NULL);
    void *library = dlopen("./plugin.so", RTLD_NOW);
    int (*twice)(int) = (int (*)(int))dlsym(library, "twice");
    const char *name = *(const char **)dlsym(library, "name");
    int all = twice(4);
    dlclose(library); /* BUG */
    return strcmp(argv[1], "data") ? twice(all) : name[0] != 'p';
}
#endif
