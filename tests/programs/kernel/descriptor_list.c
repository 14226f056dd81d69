// A program that lists its descriptors, and closes all that are listed.
#include "case.h"
#include <dirent.h>

static int list(const char *folder, int *found) {
    DIR *list = opendir(folder);
    struct dirent *entry;
    int count = 0;
    while ((entry = readdir(list)))
        if (entry->d_name[0] != '.' && atoi(entry->d_name) != dirfd(list))
            found[count++] = atoi(entry->d_name);
    closedir(list);
    return count;
}

int main(void) {
    int found[1000], failed = 0;
    char folder[80];
    // Enough for several calls.
    for (int i = 0; i < 300; i++)
        dup(0);
    int count = list("/proc/self/fd", found);
    EXPECT(list("/proc/self/fdinfo", found) == count);
    snprintf(folder, sizeof folder, "/proc/self/task/%d/fd", getpid());
    EXPECT(list(folder, found) == count);
    snprintf(folder, sizeof folder, "/proc/%d/fd", getpid());
    EXPECT(list(folder, found) == count);
    for (int i = 0; i < count; i++)
        if (found[i] > 2 && close(found[i]))
            failed++;
    printf("%d, %d, %d cannot be closed\n", count, found[count - 1], failed);
    printf("%d left\n", list("/proc/self/fd", found));
}
