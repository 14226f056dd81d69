// Where large mappings lie that are not the program's own: natively nowhere, and while it is recorded, what the recorder
// keeps about its memory.
#pragma once
#include "case.h"

enum { MOST_PLACES = 64 };

// Starts and middles of all writable private mappings of at least 1 GiB without a file.
static inline int large_mappings(char **places) {
    // The shorter list does not show what is the recorder's.
    FILE *maps = fopen("/proc/self/smaps", "r");
    EXPECT(maps != NULL);
    char line[512];
    int count = 0;
    while (fgets(line, sizeof line, maps) != NULL) {
        uint64_t start, end;
        char protection[5], rest[300] = "";
        if (sscanf(line, "%lx-%lx %4s %*s %*s %*s %299s", &start, &end, protection, rest) < 3)
            continue;
        if (end - start < 1ul << 30 || rest[0] != 0 || protection[1] != 'w')
            continue;
        for (int half = 0; half < 2 && count < MOST_PLACES; half++)
            places[count++] = (char *)((start + half * (end - start) / 2) & ~4095ul);
    }
    fclose(maps);
    return count;
}
