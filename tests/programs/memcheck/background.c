// An allocator whose own threads take its own locks, which lie in memory of its own.
// finds: nothing
// flags: -D_GNU_SOURCE
#include <dlfcn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

int main(void) {
    int (*mallctl)(const char *, void *, size_t *, void *, size_t) = dlsym(RTLD_DEFAULT, "mallctl");
    bool on = true;
    int failed = mallctl ? mallctl("background_thread", NULL, NULL, &on, sizeof on) : -1;
    for (int i = 0; i < 1000; i++)
        free(malloc(i * 10));
    usleep(10000);
    return failed > 0;
}
