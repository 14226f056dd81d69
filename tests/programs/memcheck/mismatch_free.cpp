// What new has given out is given back by free.
// finds: mismatch inside 0
#include <cstdio>
#include <cstdlib>

int main(int argc, char **) {
    long *one = new long(argc);
    std::printf("%ld\n", *one);
    __asm__ volatile("" : "+r"(one));
    std::free(one); /* HERE */
    return 0;
}
