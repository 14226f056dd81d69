// The exit status is what nothing has set.
// finds: argument heap

#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(void) {
    volatile int *block = malloc(16);
    block[0] = 2;
    syscall(SYS_exit_group, block[1] & 1); /* HERE */
    return 0;
}
