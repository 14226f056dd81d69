// Pages that someone fills in when they are touched first.
#pragma once
#include "case.h"
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif

enum { PAGES = 16 };

// Maps PAGES of them. Their faults are read from the descriptor that *fd is set to.
static inline char *missing_pages(int *fd) {
    *fd = syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);
    if (*fd < 0)
        skip("userfaultfd is not allowed here");
    struct uffdio_api api = {.api = UFFD_API};
    EXPECT(ioctl(*fd, UFFDIO_API, &api) == 0);
    char *m = mmap(NULL, PAGES * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct uffdio_register r = {.range = {(uint64_t)m, PAGES * 4096}, .mode = UFFDIO_REGISTER_MODE_MISSING};
    EXPECT(ioctl(*fd, UFFDIO_REGISTER, &r) == 0);
    return m;
}

// Waits for a fault and returns the address of its page.
static inline uint64_t next_fault(int fd) {
    struct uffd_msg msg;
    EXPECT(read(fd, &msg, sizeof msg) == sizeof msg && msg.event == UFFD_EVENT_PAGEFAULT);
    return msg.arg.pagefault.address & ~4095ull;
}

// Fills the page at an address with another one, and lets who touched it go on.
static inline void fill(int fd, uint64_t address, const char *page) {
    struct uffdio_copy c = {.dst = address, .src = (uint64_t)page, .len = 4096};
    EXPECT(ioctl(fd, UFFDIO_COPY, &c) == 0);
}
