// cmpxchg8b and cmpxchg16b, that fail and succeed, with and without lock.
// flags: -mcx16
#include "case.h"
int main(void) {
    static volatile uint64_t m[2] __attribute__((aligned(16)));
    int p[2];
    EXPECT(pipe(p) == 0);
    uint64_t sum = 0;
    for (uint64_t n = 0; n < 100; n++) {
        uint64_t v[2] = {n, n / 2};
        EXPECT(write(p[1], v, 16) == 16 && read(p[0], (void *)m, 16) == 16);
        uint64_t a = n & ~1ull, d = n / 2;
        uint8_t z;
        asm volatile("lock cmpxchg16b %0\n sete %3" : "+m"(m), "+a"(a), "+d"(d), "=q"(z) : "b"(n * 3), "c"(n * 5) : "cc");
        EXPECT(z == !(n & 1) && a == n && m[0] == (z ? n * 3 : n));
        uint32_t lo = m[0], hi = n & 2 ? 99 : (uint32_t)(m[0] >> 32);
        asm volatile("cmpxchg8b %0\n sete %3" : "+m"(m[0]), "+a"(lo), "+d"(hi), "=q"(z) : "b"((uint32_t)n), "c"(7) : "cc");
        sum = sum * 31 + m[0] + m[1] + z + lo + hi;
        // Aligned to 8 only.
        static volatile struct { char c[8]; uint64_t v[2]; } odd __attribute__((aligned(16)));
        lo = odd.v[0], hi = odd.v[0] >> 32;
        asm volatile("lock cmpxchg8b %0" : "+m"(odd.v[0]), "+a"(lo), "+d"(hi) : "b"((uint32_t)n), "c"((uint32_t)n) : "cc");
        sum += odd.v[0];
    }
    printf("%lx\n", sum);
}
