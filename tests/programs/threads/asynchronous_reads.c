/* What the kernel reads for one thread, long after the call that asked for it, another thread finds in a buffer in which
 * a third one wrote before: native asynchronous I/O, and io_uring where the kernel lets programs have it.
 *
 * test: 20
 * soak: 2000
 */
#include "threads.h"
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/io_uring.h>
#include <sys/mman.h>
#include <sys/syscall.h>

enum { SIZE = 4096 };

static unsigned char buffer[SIZE] __attribute__((aligned(SIZE)));
static int file;
static aio_context_t aio;
static int uring = -1;
static struct io_uring_params params;
static char *rings;
static struct io_uring_sqe *entries;

static unsigned *word(unsigned offset) { return (unsigned *)(rings + offset); }

static void open_ring(void)
{
    uring = syscall(SYS_io_uring_setup, 4, &params);
    if (uring < 0 || !(params.features & IORING_FEAT_SINGLE_MMAP)) {
        uring = -1;
        return;
    }
    size_t size = params.cq_off.cqes + params.cq_entries * sizeof(struct io_uring_cqe);
    size_t other = params.sq_off.array + params.sq_entries * sizeof(unsigned);
    rings = mmap(NULL, size > other ? size : other, PROT_READ | PROT_WRITE, MAP_SHARED, uring, IORING_OFF_SQ_RING);
    entries = mmap(NULL, params.sq_entries * sizeof *entries, PROT_READ | PROT_WRITE, MAP_SHARED, uring, IORING_OFF_SQES);
    ENSURE(rings != MAP_FAILED && entries != MAP_FAILED);
}

static void *fill(void *value)
{
    memset(buffer, (int)(long)value, SIZE);
    return NULL;
}

static void *submit(void *value)
{
    long offset = (long)value % 4 * SIZE;
    if (uring < 0 || (long)value % 2) {
        struct iocb request = { .aio_lio_opcode = IOCB_CMD_PREAD, .aio_fildes = file };
        request.aio_buf = (unsigned long)buffer, request.aio_nbytes = SIZE, request.aio_offset = offset;
        struct iocb *requests[] = { &request };
        ENSURE(syscall(SYS_io_submit, aio, 1, requests) == 1);
    } else {
        unsigned tail = *word(params.sq_off.tail), at = tail & *word(params.sq_off.ring_mask);
        entries[at] = (struct io_uring_sqe){ .opcode = IORING_OP_READ, .fd = file };
        entries[at].addr = (unsigned long)buffer, entries[at].len = SIZE, entries[at].off = offset;
        word(params.sq_off.array)[at] = at;
        __atomic_store_n(word(params.sq_off.tail), tail + 1, __ATOMIC_RELEASE);
        ENSURE(syscall(SYS_io_uring_enter, uring, 1, 0, 0, NULL, 0) == 1);
    }
    return NULL;
}

static void *await(void *value)
{
    if (uring < 0 || (long)value % 2) {
        struct io_event event;
        ENSURE(syscall(SYS_io_getevents, aio, 1, 1, &event, NULL) == 1 && event.res == SIZE);
    } else {
        ENSURE(syscall(SYS_io_uring_enter, uring, 0, 1, IORING_ENTER_GETEVENTS, NULL, 0) == 0);
        __atomic_store_n(word(params.cq_off.head), *word(params.cq_off.head) + 1, __ATOMIC_RELEASE);
    }
    for (int i = 0; i < SIZE; i++)
        ENSURE(buffer[i] == (unsigned char)((long)value % 4 + i));
    return NULL;
}

static void in_thread(void *(*function)(void *), long value)
{
    pthread_t thread;
    ENSURE(pthread_create(&thread, NULL, function, (void *)value) == 0 && pthread_join(thread, NULL) == 0);
}

int main(int argc, char **argv)
{
    long rounds = argument(argc, argv, 1, 20);
    file = memfd_create("data", 0);
    for (int i = 0; i < 4; i++) {
        for (int j = 0; j < SIZE; j++)
            buffer[j] = (unsigned char)(i + j);
        ENSURE(write(file, buffer, SIZE) == SIZE);
    }
    ENSURE(syscall(SYS_io_setup, 4, &aio) == 0);
    open_ring();
    for (long round = 0; round < rounds; round++) {
        in_thread(fill, 0xee);
        in_thread(submit, round);
        in_thread(await, round);
    }
    puts("done");
}
