// An array of new[] is given back by delete.
// finds: mismatch inside 0
#include <cstdio>

int main(int argc, char **) {
    int *all = new int[argc * 10];
    all[0] = argc;
    std::printf("%d\n", all[0]);
    __asm__ volatile("" : "+r"(all));
    delete all; /* HERE */
    return 0;
}
