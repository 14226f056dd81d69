/* Every process forks at each of six levels: 64 processes, all alive at once. */
#include <sys/wait.h>
#include <unistd.h>

int main(void) {
    int count = 1;
    for (int level = 0; level < 6; level++) {
        if (fork() == 0) {
            count = 1;
        }
    }
    int status;
    while (wait(&status) > 0) count += WEXITSTATUS(status);
    return count & 0x7f;
}
