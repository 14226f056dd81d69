# make -j2 of a small C project: gcc, cc1, as, collect2, ld.
mkdir project && cd project || exit 1
cat > Makefile <<'END'
CFLAGS = -O1
program: main.o other.o
	$(CC) -o $@ main.o other.o
END
printf 'int other(int);\nint main(void) { return other(20) - 21; }\n' > main.c
printf 'int other(int x) { return x + 1; }\n' > other.c
make -s -j2 && ./program && echo built
