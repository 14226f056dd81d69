// io_uring by its raw system calls: the kernel writes queue and buffers behind the program's back.
#include "case.h"
#include <linux/io_uring.h>
int main(void) {
    struct io_uring_params params = {0};
    int ring = syscall(SYS_io_uring_setup, 8, &params);
    if (ring < 0)
        skip("io_uring_setup fails here");
    size_t size = params.sq_off.array + params.sq_entries * 4;
    if (size < params.cq_off.cqes + params.cq_entries * sizeof(struct io_uring_cqe))
        size = params.cq_off.cqes + params.cq_entries * sizeof(struct io_uring_cqe);
    char *q = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring, IORING_OFF_SQ_RING);
    EXPECT(q != MAP_FAILED && (params.features & IORING_FEAT_SINGLE_MMAP));
    struct io_uring_sqe *sqes = mmap(NULL, params.sq_entries * sizeof *sqes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring, IORING_OFF_SQES);
    EXPECT(sqes != MAP_FAILED);
    volatile unsigned *tail = (void *)(q + params.sq_off.tail), *mask = (void *)(q + params.sq_off.ring_mask), *array = (void *)(q + params.sq_off.array);
    volatile unsigned *head = (void *)(q + params.cq_off.head), *ctail = (void *)(q + params.cq_off.tail), *cmask = (void *)(q + params.cq_off.ring_mask);
    struct io_uring_cqe *cqes = (void *)(q + params.cq_off.cqes);
    int p[2];
    EXPECT(pipe(p) == 0);
    unsigned sum = 0;
    for (int n = 0; n < 100; n++) {
        char out[256], in[256];
        memset(out, 'a' + n % 26, sizeof out);
        memset(in, 0, sizeof in);
        for (int k = 0; k < 2; k++) {
            unsigned index = (*tail + k) & *mask;
            struct io_uring_sqe *s = &sqes[index];
            memset(s, 0, sizeof *s);
            s->opcode = k ? IORING_OP_READ : IORING_OP_WRITE;
            s->fd = p[!k];
            s->addr = (uint64_t)(k ? in : out);
            s->len = sizeof in;
            s->user_data = k;
            s->flags = k ? 0 : IOSQE_IO_LINK;
            array[index] = index;
        }
        __atomic_store_n(tail, *tail + 2, __ATOMIC_RELEASE);
        EXPECT(syscall(SYS_io_uring_enter, ring, 2, 2, IORING_ENTER_GETEVENTS, NULL, 0) == 2);
        for (int k = 0; k < 2; k++) {
            EXPECT(*head != __atomic_load_n(ctail, __ATOMIC_ACQUIRE));
            EXPECT(cqes[*head & *cmask].res == 256);
            __atomic_store_n(head, *head + 1, __ATOMIC_RELEASE);
        }
        EXPECT(in[0] == out[0] && in[255] == out[255]);
        sum += in[100];
    }
    printf("%u\n", sum);
}
