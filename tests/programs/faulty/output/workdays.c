// Counts working days between dates and plans deliveries around holidays; a constant of the rule for Easter is off by one, which some years show.
// fails: output
// run: from 2049-04-01 add 10 until 2049-05-31 add 45
// good: from 2024-03-20 add 10 until 2024-05-31 add 45
// good: from 2021-12-20 add 15 until 2022-06-30
// good: from 2000-02-25 add 4 add 60 until 2001-01-08
// good: from 2038-04-01 until 2038-05-31 add 200
// repair: int m = (a + 11 * h + 22 * l) / 451;
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_HOLIDAYS 16

struct date {
    int year, month, day;
};

struct holiday {
    long number;
    const char *name;
};

/* The holidays of one year, kept until another year is asked for. */
struct calendar {
    int year;
    int count;
    struct holiday days[MAX_HOLIDAYS];
};

static const char *const weekdays[] = {"Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"};

static int is_leap(int year)
{
    return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
}

static int month_length(int year, int month)
{
    static const int lengths[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    return lengths[month - 1] + (month == 2 && is_leap(year));
}

/* Days since the first of January of the year 1, which was a Monday. */
static long number_of(struct date d)
{
    long y = d.year - 1;
    long n = y * 365 + y / 4 - y / 100 + y / 400;
    for (int m = 1; m < d.month; m++)
        n += month_length(d.year, m);
    return n + d.day - 1;
}

static struct date date_of(long number)
{
    struct date d = {(int)(number / 366) + 1, 1, 1};
    while (number_of((struct date){d.year + 1, 1, 1}) <= number)
        d.year++;
    number -= number_of(d);
    while (number >= month_length(d.year, d.month)) {
        number -= month_length(d.year, d.month);
        d.month++;
    }
    d.day = (int)number + 1;
    return d;
}

static struct date easter(int year)
{
    int a = year % 19;
    int b = year / 100, c = year % 100;
    int d = b / 4, e = b % 4;
    int f = (b + 8) / 25;
    int g = (b - f + 1) / 3;
    int h = (19 * a + b - d - g + 15) % 30;
    int i = c / 4, k = c % 4;
    int l = (32 + 2 * e + 2 * i - h - k) % 7;
    int m = (a + 11 * h + 21 * l) / 451; /* BUG */
    int n = h + l - 7 * m + 114;
    return (struct date){year, n / 31, n % 31 + 1};
}

static void add_holiday(struct calendar *c, long number, const char *name)
{
    if (c->count < MAX_HOLIDAYS) {
        c->days[c->count].number = number;
        c->days[c->count].name = name;
        c->count++;
    }
}

static void fill(struct calendar *c, int year)
{
    long sunday = number_of(easter(year));

    c->year = year;
    c->count = 0;
    add_holiday(c, number_of((struct date){year, 1, 1}), "New Year");
    add_holiday(c, sunday - 2, "Good Friday");
    add_holiday(c, sunday + 1, "Easter Monday");
    add_holiday(c, number_of((struct date){year, 5, 1}), "May Day");
    add_holiday(c, sunday + 39, "Ascension");
    add_holiday(c, sunday + 50, "Whit Monday");
    add_holiday(c, number_of((struct date){year, 12, 25}), "Christmas");
    add_holiday(c, number_of((struct date){year, 12, 26}), "Boxing Day");
}

static const char *holiday_on(struct calendar *c, long number)
{
    struct date d = date_of(number);
    if (c->year != d.year)
        fill(c, d.year);
    for (int i = 0; i < c->count; i++)
        if (c->days[i].number == number)
            return c->days[i].name;
    return NULL;
}

static int is_working(struct calendar *c, long number)
{
    return number % 7 < 5 && !holiday_on(c, number);
}

static long add_working(struct calendar *c, long from, int days)
{
    while (days > 0)
        if (is_working(c, ++from))
            days--;
    return from;
}

static int count_working(struct calendar *c, long from, long to)
{
    int n = 0;
    for (long day = from + 1; day <= to; day++)
        n += is_working(c, day);
    return n;
}

static long parse(const char *text)
{
    struct date d;
    if (sscanf(text, "%d-%d-%d", &d.year, &d.month, &d.day) != 3 || d.year < 1600 || d.month < 1 || d.month > 12 || d.day < 1 ||
        d.day > month_length(d.year, d.month)) {
        fprintf(stderr, "workdays: no such date: %s\n", text);
        exit(2);
    }
    return number_of(d);
}

static void show(const char *what, long number)
{
    struct date d = date_of(number);
    printf("%s %s %04d-%02d-%02d", what, weekdays[number % 7], d.year, d.month, d.day);
}

int main(int argc, char **argv)
{
    struct calendar calendar = {0};
    long now = -1;

    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "from") == 0) {
            now = parse(argv[i + 1]);
            show("start", now);
        } else if (now < 0) {
            fprintf(stderr, "workdays: 'from' comes first\n");
            return 2;
        } else if (strcmp(argv[i], "add") == 0) {
            now = add_working(&calendar, now, atoi(argv[i + 1]));
            show("due", now);
        } else if (strcmp(argv[i], "until") == 0) {
            long end = parse(argv[i + 1]);
            int n = count_working(&calendar, now, end);
            show("until", end);
            printf(" %d working days", n);
            now = end;
        }
        printf("\n");
    }
    return 0;
}
