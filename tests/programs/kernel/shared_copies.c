// Copies out of memory that another process changes all the time: what was copied is what was read.
#include "case.h"
int main(void) {
    enum { SIZE = 6000 };
    volatile uint64_t *shared = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    volatile uint64_t *over = shared + 1000;
    pid_t child = fork();
    if (child == 0) {
        for (uint64_t n = 0; !*over; n++)
            for (int k = 0; k < SIZE / 8; k += 5)
                shared[k] = n;
        _exit(0);
    }
    static uint64_t copy[SIZE / 8];
    uint64_t sum = 0;
    for (int n = 0; n < 3000; n++) {
        void *from = (void *)shared, *to = copy;
        size_t count = SIZE;
        asm volatile("rep movsb" : "+S"(from), "+D"(to), "+c"(count)::"memory");
        EXPECT(count == 0 && from == (char *)shared + SIZE && to == (char *)copy + SIZE);
        for (int k = 0; k < SIZE / 8; k += 50)
            sum = sum * 31 + copy[k];
        // Down, with another size.
        from = (char *)shared + 800, to = copy + 100, count = 100;
        asm volatile("std\n rep movsq\n cld" : "+S"(from), "+D"(to), "+c"(count)::"memory");
        EXPECT(count == 0 && from == (void *)shared && to == copy);
        sum += copy[50];
    }
    *over = 1;
    EXPECT(waitpid(child, NULL, 0) == child);
    EXPECT(sum != 1);
    puts("done");
}
