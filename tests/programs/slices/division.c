// A division by zero: the lines of a report are counted in tens, and there are less than ten.
// fails: SIGFPE
// slice: thin
// repair: report->counted = lines;
#include <stdio.h>
#include <string.h>

struct report {
    int counted, longest;
    long letters;
};

static void start(struct report *report, int lines) {
    report->letters = 0;
    report->longest = 0; /* NOT */
    report->counted = lines / 10; /* BUG */
}

static void add(struct report *report, const char *line) {
    int length = (int)strlen(line);
    if (length > report->longest)
        report->longest = length; /* NOT */
    report->letters += length;
}

static long average(const struct report *report) {
    return report->letters / report->counted;
}

int main(int argc, char **argv) {
    const char *const lines[] = {"to be, or not to be", "that is the question", argv[0]};
    struct report report;
    start(&report, argc + 2);
    for (int i = 0; i < 3; i++)
        add(&report, lines[i]);
    printf("longest %d\n", report.longest);
    printf("average %ld\n", average(&report));
    return 0;
}
