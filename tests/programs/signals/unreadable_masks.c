// Masks that cannot be read, or of a wrong size: the kernel refuses them.
#include "case.h"
#include <sys/syscall.h>
static void refused(const char *name, long result) { printf("%s: %ld %d\n", name, result, result < 0 ? errno : 0); }
int main(void) {
    struct timespec t = {0, 1000};
    void *nowhere = (void *)8;
    uint64_t mask = 0;
    struct {
        void *mask;
        uint64_t size;
    } both = {nowhere, 8}, wrong = {&mask, 4}, none = {NULL, 4};
    refused("ppoll", syscall(SYS_ppoll, NULL, 0L, &t, nowhere, 8L));
    refused("ppoll size", syscall(SYS_ppoll, NULL, 0L, &t, &mask, 4L));
    refused("ppoll both", syscall(SYS_ppoll, NULL, 0L, &t, nowhere, 4L));
    refused("ppoll none", syscall(SYS_ppoll, NULL, 0L, &t, NULL, 4L));
    refused("pselect", syscall(SYS_pselect6, 0L, NULL, NULL, NULL, &t, nowhere));
    refused("pselect mask", syscall(SYS_pselect6, 0L, NULL, NULL, NULL, &t, &both));
    refused("pselect size", syscall(SYS_pselect6, 0L, NULL, NULL, NULL, &t, &wrong));
    refused("pselect none", syscall(SYS_pselect6, 0L, NULL, NULL, NULL, &t, &none));
    refused("epoll_pwait", syscall(SYS_epoll_pwait, -1L, &mask, 1L, 0L, nowhere, 8L));
    refused("sigsuspend", syscall(SYS_rt_sigsuspend, nowhere, 8L));
    refused("sigsuspend size", syscall(SYS_rt_sigsuspend, nowhere, 4L));
}
