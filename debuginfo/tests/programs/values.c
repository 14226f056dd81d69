// Values of every kind, in frames that call each other; dies in the innermost one.
#include <complex.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#define NOINLINE __attribute__((noinline, noipa))

enum color { RED, GREEN = 5, BLUE };
enum flags { NONE = 0, A = 1, B = 2, C = 4 };
enum negative { LOW = -3, HIGH = 3 };
typedef struct point { int x, y; } point;
struct bits { unsigned a : 3; int b : 5; unsigned long c : 40; bool d : 1; };
union either { int i; float f; char c[8]; };
struct nested { point p; struct { char tag; double weight; }; union { long l; void *v; }; struct bits bits; point many[2]; };
struct list { struct list *next; const char *name; long value; };
struct empty {};
struct flexible { int n; int data[]; };
typedef int (*operation)(int, int);
typedef unsigned char byte;

int counter = 42;
static const char *greeting = "hello from a global";
static __thread int per_thread = 7;
point origin = { 1, -1 };

static int add(int a, int b) { return a + b; }

NOINLINE int scalars(char c, signed char sc, unsigned char uc, short s, unsigned u, long l, unsigned long ul)
{
    bool yes = true, no = false;
    float f = 3.14f, tiny = 1e-20f;
    double d = -2.5, big = 1e100, third = 1.0 / 3;
    long double ld = 3.14L;
    double complex z = 1.5 + 2 * I;
    wchar_t w = L'x';
    byte b = 200;
    __int128 wide = (__int128)1 << 70;
    int64_t i64 = INT64_MIN;
    uint64_t u64 = UINT64_MAX;
    char quote = '\'', newline = '\n', zero = 0, high = (char)0xe9;
    static int kept = 11;
    kept++;
    per_thread++;
    __builtin_trap();
    return c + sc + uc + s + u + l + ul + yes + no + f + tiny + d + big + third + ld + creal(z) + w + b + wide + i64 + u64 + quote
        + newline + zero + high;
}

NOINLINE int aggregates(struct nested n, struct list *list, union either e)
{
    point p = { 3, 4 }, *pp = &p;
    int ints[5] = { 1, 2, 3, 4, 5 };
    int zeros[30] = { 0 };
    int mixed[14] = { 9, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 7, 6 };
    int matrix[2][3] = { { 1, 2, 3 }, { 4, 5, 6 } };
    point points[3] = { { 1, 2 }, { 3, 4 }, { 5, 6 } };
    char text[16] = "hello";
    char long_text[64] = "hello";
    char full[4] = { 'a', 'b', 'c', 'd' };
    char many[300];
    memset(many, 'z', sizeof many);
    unsigned char raw[4] = { 1, 2, 3, 255 };
    wchar_t wide[4] = L"abc";
    const char *words[3] = { "one", "two", NULL };
    struct empty nothing = {};
    double doubles[3] = { 0.5, 1e10, -0.0 };
    int vla[list->value];
    for (int i = 0; i < list->value; i++)
        vla[i] = i * i;
    int (*to_array)[5] = &ints;
    struct flexible *flexible = malloc(sizeof *flexible + 2 * sizeof(int));
    flexible->n = 2;
    int r = scalars('a', -1, 200, -300, 4000000000u, -5, 6) + p.x + pp->y + ints[0] + zeros[0] + mixed[0] + matrix[0][0] + points[0].x
        + text[0] + long_text[0] + full[0] + many[0] + raw[0] + wide[0] + (words[0] != 0) + doubles[0] + vla[0] + (*to_array)[0];
    (void)nothing;
    return r + n.p.x + e.i;
}

NOINLINE int pointers(int argc, char **argv, operation op, void *nowhere)
{
    enum color color = GREEN, odd = (enum color)3;
    enum flags flags = A | C, none = NONE, unknown = (enum flags)12;
    enum negative low = LOW;
    int *to_global = &counter;
    int *past = &counter + 1;
    void (*null_function)(void) = NULL;
    const char *text = "a \"quoted\"\ttext";
    char *unreadable = NULL;
    unsigned char *bytes = (unsigned char *)"bytes";
    struct list second = { NULL, "second", 5 }, first = { &second, "first", 3 };
    struct nested n = { { 1, 2 }, { 't', 0.25 }, { 77 }, { 5, -7, 1ul << 39, true }, { { 1, 2 }, { 3, 4 } } };
    union either e = { .f = 1.5f };
    volatile const int cv = 5;
    int result = 0;
    for (int i = 0; i < 2; i++) {
        int square = i * i;
        if (i == 1) {
            int i = 50;
            result += aggregates(n, &first, e) + i + square;
        }
    }
    return result + color + odd + flags + none + unknown + low + *to_global + (past != 0) + (null_function != 0) + (text != 0)
        + (unreadable != 0) + bytes[0] + cv + argc + (argv != 0) + (op != 0) + (nowhere != 0);
}

int main(int argc, char **argv)
{
    int local = argc;
    return pointers(argc, argv, add, (void *)0x1234) + local + (greeting != 0) + per_thread + origin.x;
}
