// Libraries that are loaded and unloaded in turn, and so come to lie at one address. Their initialisers and finalisers
// run there.
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>

int main(void)
{
    const char *names[] = { "libutil.so.1", "libBrokenLocale.so.1", "libanl.so.1", "libm.so.6" };
    ElfW(Addr) last = 0;
    int equal = 0;
    double sum = 0;
    for (int i = 0; i < 60; i++) {
        void *library = dlopen(names[i % 4], RTLD_NOW);
        struct link_map *map;
        if (!library || dlinfo(library, RTLD_DI_LINKMAP, &map)) {
            printf("there is no %s\n", names[i % 4]);
            return 77;
        }
        equal += map->l_addr == last;
        last = map->l_addr;
        double (*cosine)(double) = (double (*)(double))dlsym(library, "cos");
        if (cosine)
            sum += cosine(i);
        dlclose(library);
    }
    printf("%.6f, %s\n", sum, equal > 20 ? "often at one address" : "at different addresses");
    return 0;
}
