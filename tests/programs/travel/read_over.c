/* A buffer that the program filled is filled again by a system call. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static char buffer[8];

int main(void)
{
    int ends[2];
    if (pipe(ends) || write(ends[1], "read", 4) != 4)
        return 1;
    strcpy(buffer, "stored");
    if (*(volatile char *)buffer != 's' || read(ends[0], buffer, 4) != 4)
        return 1;
    printf("%p %.4s\n", (void *)buffer, buffer);
    return 0;
}
