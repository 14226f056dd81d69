// A 32-bit system call that makes a process.
// message: 32-bit system call 2
#include "case.h"
int main(void) {
    int status;
    long pid = 2;
    asm volatile("int $0x80" : "+a"(pid)::"r8", "r9", "r10", "r11", "memory");
    if (pid == 0)
        _exit(3);
    EXPECT(pid > 0 && waitpid(pid, &status, 0) == pid && WEXITSTATUS(status) == 3);
    puts("done");
}
