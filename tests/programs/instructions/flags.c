// Flags: pushf and popf with every bit that a program can change; lahf, sahf; AC; ID; NT; what traps.
#include "case.h"
static uint64_t try(uint64_t bits) {
    uint64_t before, after;
    asm volatile("pushf\n pop %0\n mov %0, %1\n xor %2, %1\n push %1\n popf\n pushf\n pop %1\n push %0\n popf" : "=&r"(before), "=&r"(after) : "r"(bits) : "cc", "memory");
    return before ^ after;
}
int main(void) {
    // CF PF AF ZF SF DF OF NT AC ID, one by one; AC makes misaligned accesses fault, of which there are none.
    static const uint64_t bits[] = {1, 4, 0x10, 0x40, 0x80, 0x400, 0x800, 0x4000, 0x40000, 0x200000, 0x200, 0x3000, 0x10000, 0x20000, 2, 8};
    for (int round = 0; round < 20; round++)
        for (unsigned n = 0; n < sizeof bits / sizeof *bits; n++) {
            uint64_t changed = try(bits[n]);
            if (round == 0)
                printf("%lx %lx\n", bits[n], changed);
        }
    uint64_t x = 0, sum = 0;
    for (int n = 0; n < 256; n++) {
        uint16_t ah = n << 8;
        asm volatile("sahf\n adc $0, %1\n lahf" : "+a"(ah), "+r"(x)::"cc");
        sum = sum * 31 + ah;
    }
    printf("%lx %lx\n", x, sum);
}
