// Off by one: the length of a field is one too small, so that the columns of a table are too narrow.
// fails: output
// slice: thin
// repair: return (int)(end - start);
#include <stdio.h>
#include <string.h>

#define ROWS 3
#define COLUMNS 3

static const char *const rows[ROWS] = {"name;town;year", "Ada;London;1815", "Emmy;Erlangen;1882"};

static int field_length(const char *row, int column) {
    const char *start = row;
    while (column > 0) {
        start = strchr(start, ';') + 1;
        column--;
    }
    const char *end = strchr(start, ';');
    if (!end)
        end = start + strlen(start);
    return (int)(end - start) - 1; /* BUG */
}

static int widest(int column) {
    int most = 0;
    for (int row = 0; row < ROWS; row++) {
        int length = field_length(rows[row], column);
        if (length > most)
            most = length;
    }
    return most;
}

int main(void) {
    int year = 0;
    for (int row = 1; row < ROWS; row++)
        year += rows[row][strlen(rows[row]) - 1] - '0'; /* NOT */
    printf("digits %d\n", year);
    for (int column = 0; column < COLUMNS; column++)
        printf("column %d: %d wide\n", column, widest(column));
    return 0;
}
