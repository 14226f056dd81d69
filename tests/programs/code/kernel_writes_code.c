// Pages that are writable and executable at once, into which system calls write code that has run before.
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

int main(void)
{
    unsigned char *code = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int file = memfd_create("code", 0), ends[2];
    if (code == MAP_FAILED || file < 0 || pipe(ends))
        return 1;
    unsigned long sum = 0;
    for (int i = 0; i < 60; i++) {
        unsigned char bytes[6] = { 0xb8, (unsigned char)i, 2, 0, 0, 0xc3 };
        struct iovec to = { code, 6 }, from = { bytes, 6 };
        ssize_t got = -1;
        switch (i % 3) {
        case 0:
            if (write(ends[1], bytes, 6) == 6)
                got = read(ends[0], code, 6);
            break;
        case 1:
            if (pwrite(file, bytes, 6, 0) == 6)
                got = preadv(file, &to, 1, 0);
            break;
        case 2:
            got = process_vm_writev(getpid(), &from, 1, &to, 1, 0);
            if (got < 0) {
                memcpy(code, bytes, 6);
                got = 6;
            }
        }
        if (got != 6)
            return 2;
        sum = sum * 31 + ((int (*)(void))code)();
    }
    printf("%lx\n", sum);
    return 0;
}
