/* Maps and unmaps libraries and memory, and says what it maps where. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

static int number;

static void here(void)
{
    number++;
}

int main(void)
{
    here(); /* before */
    void *library = dlopen("libm.so.6", RTLD_NOW);
    double (*cosine)(double) = (double (*)(double))dlsym(library, "cos");
    here(); /* opened */
    char *memory = mmap(NULL, 5 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(memory + 4096, 4096, PROT_READ);
    munmap(memory + 3 * 4096, 4096);
    char *heap = malloc(100);
    here(); /* mapped */
    memory = mremap(memory, 4096, 8 * 4096, MREMAP_MAYMOVE);
    dlclose(library);
    here(); /* closed */
    printf("%d %p %p %d\n", number, (void *)memory, heap, cosine != NULL);
    return 0;
}
