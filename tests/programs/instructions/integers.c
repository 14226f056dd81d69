// BMI, ADX, MOVBE, LZCNT, POPCNT, CRC32, from memory.
// record: --cpu host
#include "case.h"
int main(void) {
    if (!__builtin_cpu_supports("bmi2") || !__builtin_cpu_supports("avx2"))
        skip("no BMI2");
    uint32_t a, b, c, d;
    asm volatile("cpuid" : "=a"(a), "=b"(b), "=c"(c), "=d"(d) : "a"(7), "c"(0));
    int adx = b >> 19 & 1;
    int p[2];
    EXPECT(pipe(p) == 0);
    static volatile uint64_t m[8];
    uint64_t x = 3, y = 5, z;
    for (int n = 0; n < 300; n++) {
        uint64_t in[8];
        for (int k = 0; k < 8; k++)
            in[k] = work(n + k);
        EXPECT(write(p[1], in, 64) == 64 && read(p[0], (void *)m, 64) == 64);
#define R(text, mem) asm volatile(text : "+r"(x), "+r"(y), "=&r"(z) : "m"(mem), "d"(y) : "cc"); x ^= z
        R("andn %3, %0, %2", m[0]);
        R("bextr %1, %3, %2", m[1]);
        R("blsi %3, %2", m[2]);
        R("blsr %3, %2", m[3]);
        R("blsmsk %3, %2", m[4]);
        R("bzhi %1, %3, %2", m[5]);
        R("pdep %3, %0, %2", m[6]);
        R("pext %3, %0, %2", m[7]);
        R("mulx %3, %1, %2", m[0]);
        R("rorx $13, %3, %2", m[1]);
        R("sarx %1, %3, %2", m[2]);
        R("shlx %1, %3, %2", m[3]);
        R("shrx %1, %3, %2", m[4]);
        R("lzcnt %3, %2", m[5]);
        R("tzcnt %3, %2", m[6]);
        R("popcnt %3, %2", m[7]);
        R("movbe %3, %2", m[0]);
        R("mov %0, %2\n crc32q %3, %2", m[1]);
        if (adx) {
            R("mov %0, %2\n stc\n adcx %3, %2", m[2]);
            R("mov %0, %2\n adox %3, %2\n adox %3, %2\n seto %b2", m[3]);
        }
        asm volatile("movbe %1, %0" : "=m"(m[4]) : "r"(x));
        x += m[4];
    }
    printf("%lx %lx\n", x, y);
}
