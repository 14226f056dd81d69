// x87: loads and stores of every size, 80-bit values, comparisons, rounding, the environment.
#include "case.h"
int main(void) {
    int p[2];
    EXPECT(pipe(p) == 0);
    static volatile struct { float f; double d; long double l; int16_t i16; int32_t i32; int64_t i64; char bcd[10]; } m;
    long double acc = 0;
    uint64_t sum = 0;
    for (int n = 1; n < 200; n++) {
        m.f = n / 3.f, m.d = n / 7., m.l = n / 11.L, m.i16 = -n, m.i32 = n * 1000, m.i64 = n * 1000000000000;
        char copy[sizeof m];
        EXPECT(write(p[1], (void *)&m, sizeof m) == sizeof m && read(p[0], copy, sizeof m) == sizeof m);
        memcpy((void *)&m, copy, sizeof m);
        long double r;
        asm volatile("flds %1\n fldl %2\n faddp\n fldt %3\n fmulp\n fildq %4\n faddp\n filds %5\n fsubrp\n fildl %6\n fdivrp\n fstpt %0"
                     : "=m"(r) : "m"(m.f), "m"(m.d), "m"(m.l), "m"(m.i64), "m"(m.i16), "m"(m.i32) : "st", "st(1)");
        acc += r;
        asm volatile("fildq %1\n fbstp %0\n fbld %0\n fistpll %2" : "+m"(m.bcd), "+m"(m.i64), "=m"(m.i64)::"st");
        uint16_t status, cw, old;
        asm volatile("fnstcw %0\n" : "=m"(old));
        cw = (old & ~0xc00) | (n & 3) << 10;
        asm volatile("fldcw %2\n fldt %3\n fistl %4\n frndint\n fstps %5\n fnstsw %%ax\n mov %%ax, %0\n fldcw %1"
                     : "=m"(status) : "m"(old), "m"(cw), "m"(r), "m"(m.i32), "m"(m.f) : "ax", "st", "memory");
        asm volatile("fldl %1\n fcompl %2\n fnstsw %0" : "=m"(status) : "m"(m.d), "m"(m.d) : "st");
        sum = sum * 31 + m.i32 + (status & 0x4500) + m.bcd[0] + m.bcd[1];
        asm volatile("fldt %1\n fxtract\n fscale\n fstpt %0\n fstp %%st(0)" : "=m"(r) : "m"(m.l) : "st", "st(1)");
        acc += r;
        uint64_t flags;
        asm volatile("fldl %1\n fldt %2\n fcomip\n fstp %%st(0)\n pushf\n pop %0" : "=r"(flags) : "m"(m.d), "m"(m.l) : "st", "st(1)", "cc");
        sum += flags & 0x45;
    }
    printf("%.20Lg %lx\n", acc, sum);
}
