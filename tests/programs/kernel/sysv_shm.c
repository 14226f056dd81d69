// System V shared memory with a child that writes to it, and semaphores.
#include "case.h"
#include <sys/ipc.h>
#include <sys/sem.h>
#include <sys/shm.h>
int main(void) {
    int id = shmget(IPC_PRIVATE, 8192, IPC_CREAT | 0600), sem = semget(IPC_PRIVATE, 2, IPC_CREAT | 0600);
    if (id < 0 || sem < 0)
        skip("no System V IPC here");
    volatile int *m = shmat(id, NULL, 0);
    EXPECT(m != (void *)-1);
    shmctl(id, IPC_RMID, NULL);
    pid_t child = fork();
    struct sembuf up = {0, 1, 0}, down = {0, -1, 0};
    if (child == 0) {
        for (int n = 0; n < 1000; n++)
            m[n] = n * 3;
        semop(sem, &up, 1);
        _exit(0);
    }
    EXPECT(semop(sem, &down, 1) == 0);
    int sum = 0;
    for (int n = 0; n < 1000; n++)
        sum += m[n];
    EXPECT(waitpid(child, NULL, 0) == child);
    semctl(sem, 0, IPC_RMID);
    EXPECT(shmdt((void *)m) == 0);
    printf("%d\n", sum);
}
