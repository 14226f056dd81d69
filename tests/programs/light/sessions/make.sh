# A build by several jobs, and what it has built.
set -e
for i in $(seq 16); do
    cat >"f$i.c" <<END
#include <stdio.h>
int f$i(int x) {
    return printf("%d\n", x * $i);
}
END
done
cat >main.c <<'END'
int f1(int), f16(int);
int main(void) {
    return f1(2) + f16(3) != 5;
}
END
cat >Makefile <<'END'
all: main
	./main
main: $(patsubst %.c,%.o,$(wildcard *.c))
	gcc -o $@ $^
%.o: %.c
	gcc -O1 -c -o $@ $<
END
make -j4
