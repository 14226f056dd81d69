/* days YEAR-MONTH-DAY: how many days there are from 1 January 1970 to a date. */
#include <stdio.h>
#include <stdlib.h>

static const int month_days[] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };

static int is_leap(int year)
{
    if (year % 100 == 0)
        return 0;
    return year % 4 == 0;
}

static int days_of_year(int year)
{
    return is_leap(year) ? 366 : 365;
}

static int days_before(int year, int month)
{
    int days = 0;
    for (int i = 1; i < month; i++) {
        days += month_days[i - 1];
        if (i == 2 && is_leap(year))
            days++;
    }
    return days;
}

int main(int argc, char **argv)
{
    int year, month, day;
    if (argc != 2 || sscanf(argv[1], "%d-%d-%d", &year, &month, &day) != 3 || month < 1 || month > 12) {
        fprintf(stderr, "usage: days YEAR-MONTH-DAY\n");
        return 2;
    }
    int total = 0;
    for (int y = 1970; y < year; y++)
        total += days_of_year(y);
    total += days_before(year, month);
    total += day - 1;
    printf("%d days\n", total);
    return 0;
}
