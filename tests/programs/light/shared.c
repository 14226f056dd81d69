// Maps memory that other processes could write: anonymous memory, and a file that nobody else has open. With an argument, it `drops` the anonymous memory, makes that of the file writable later (`protects`), `forks`, or does with one of
// them what nobody follows: `opens` the file again, `writes` it, `moves` the anonymous memory, or has another process open the file (`other`).
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    const char *does = argc > 1 ? argv[1] : "";
    int file = open("mapped", O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (file < 0 || ftruncate(file, 8192) != 0)
        return 1;
    int protects = strcmp(does, "protects") == 0;
    char *of_file = mmap(NULL, 8192, protects ? PROT_READ : PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (protects && mprotect(of_file, 8192, PROT_READ | PROT_WRITE) != 0)
        return 1;
    char *own = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (of_file == MAP_FAILED || own == MAP_FAILED)
        return 1;
    for (int i = 0; i < 8192; i++)
        own[i] = of_file[i] = (char)(i * 7);
    int sum = 0;
    if (strcmp(does, "opens") == 0)
        sum += open("mapped", O_RDONLY) > 0;
    else if (strcmp(does, "writes") == 0)
        sum += (int)write(file, "x", 1);
    else if (strcmp(does, "drops") == 0)
        sum += madvise(own, 8192, MADV_DONTNEED);
    else if (strcmp(does, "moves") == 0)
        own = mremap(own, 8192, 16384, MREMAP_MAYMOVE);
    else if (strcmp(does, "other") == 0)
        sum += system("cat mapped >copy");
    else if (strcmp(does, "forks") == 0) {
        pid_t child = fork();
        if (child == 0) {
            of_file[5000] = 1;
            _exit(own[1] = 3);
        }
        waitpid(child, NULL, 0);
    }
    for (int i = 0; i < 8192; i++)
        sum += own[i] + of_file[i] * 3;
    munmap(own, 8192);
    munmap(of_file, 8192);
    // Nobody could write it any more: it may be opened.
    printf("%d %d\n", sum, open("mapped", O_RDONLY) > 0);
    return 0;
}
