// Calls and jumps whose target is in memory, at addresses of each kind: with the base of FS or GS, of 32 bits, and with all that
// an address may be made of.
// flags: -no-pie
#include "case.h"

typedef uint64_t (*function)(void);
static uint64_t one(void) { return 1; }
static uint64_t two(void) { return 2; }
_Thread_local function of_thread[8];
function low[8];

// The function at index 3 of an array, by an instruction that finds it with RDX and R8.
#define BRANCH(name, array, branch)                                                                                     \
    uint64_t name(void);                                                                                                \
    asm(#name ": " array "\n mov $3, %r8d\n sub $8, %rsp\n call 1f\n add $8, %rsp\n ret\n 1: " branch)

#define THREAD "mov $of_thread@tpoff, %rdx"
#define LOW "mov $low, %edx"
BRANCH(jump_thread, THREAD, "jmp *%fs:(%rdx, %r8, 8)");
BRANCH(call_thread, THREAD, "push %rdx\n call *%fs:(%rdx, %r8, 8)\n pop %rdx\n ret");
BRANCH(call_thread_base, THREAD, "push %rdx\n call *%fs:24(%rdx)\n pop %rdx\n ret");
BRANCH(jump_low, LOW, "jmp *(%edx, %r8d, 8)");
BRANCH(call_low, LOW, "push %rdx\n call *(%edx, %r8d, 8)\n pop %rdx\n ret");
BRANCH(jump_gs, LOW, "jmp *%gs:(%rdx, %r8, 8)");
BRANCH(call_gs, LOW, "push %rdx\n call *%gs:(%rdx, %r8, 8)\n pop %rdx\n ret");
BRANCH(call_gs_base, LOW, "push %rdx\n call *%gs:24(%rdx)\n pop %rdx\n ret");

static const function all[] = {call_thread, jump_thread, call_thread_base, call_gs,
                               call_low,    jump_gs,     jump_low,         call_gs_base};

int main(void) {
    uint64_t sum = 0;
    for (int n = 0; n < 300; n++) {
        for (int i = 0; i < 8; i++) {
            low[i] = of_thread[i] = i == 3 && n % 3 ? one : two;
        }
        // What the kernel writes is read by the branch first.
        if (n % 5 == 0) {
            int fd = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
            function other = n % 2 ? one : two;
            EXPECT(fd >= 0 && pwrite(fd, &other, 8, (off_t)&of_thread[3]) == 8 && pwrite(fd, &other, 8, (off_t)&low[3]) == 8);
            close(fd);
        }
        for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
            sum = sum * 3 + all[i]();
        }
    }
    printf("%#llx\n", (unsigned long long)sum);
}
