/* notes PORT: a server that keeps short notes. A client sends one line:
 *     put NAME TEXT      keeps a note, in place of one of that name
 *     get NAME           asks for it
 *     drop NAME          forgets it
 *     last               asks for the note that was kept last
 * After some days at a customer's, it dies. */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct note {
    char *text;
    char *name;
    struct note *next;
};

static struct note *notes;
static struct note *last;

static struct note **find(const char *name)
{
    struct note **at = &notes;
    while (*at && strcmp((*at)->name, name))
        at = &(*at)->next;
    return at;
}

static void drop(struct note **at)
{
    struct note *note = *at;
    if (!note)
        return;
    *at = note->next;
    free(note->name);
    free(note->text);
    free(note);
}

static void put(const char *name, const char *text)
{
    drop(find(name));
    struct note *note = malloc(sizeof *note);
    note->name = strdup(name);
    note->text = strdup(text);
    note->next = notes;
    notes = last = note;
}

static void serve(FILE *client)
{
    char line[256], command[8], name[32], text[200];
    if (!fgets(line, sizeof line, client))
        return;
    int words = sscanf(line, "%7s %31s %199[^\n]", command, name, text);
    if (words == 3 && !strcmp(command, "put")) {
        put(name, text);
    } else if (words == 2 && !strcmp(command, "get")) {
        struct note *note = *find(name);
        fprintf(client, "%s\n", note ? note->text : "no such note");
    } else if (words == 2 && !strcmp(command, "drop")) {
        drop(find(name));
    } else if (words == 1 && !strcmp(command, "last")) {
        fprintf(client, "%s\n", last ? last->text : "no notes");
    }
}

int main(int argc, char **argv)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    address.sin_port = htons(argc == 2 ? atoi(argv[1]) : 0);
    int listener = socket(AF_INET, SOCK_STREAM, 0), yes = 1;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (argc != 2 || bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 8)) {
        perror("usage: notes PORT");
        return 2;
    }
    for (;;) {
        FILE *client = fdopen(accept(listener, NULL, NULL), "r+");
        serve(client);
        fclose(client);
    }
}
