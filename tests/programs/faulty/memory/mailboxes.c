// Boxes of messages with commands to send, drop and list them; a dropped message leaves its text in the box, and closing the box releases it again.
// fails: SIGABRT
// run: open:ann send:ann:hello send:ann:lunch drop:ann:0 list:ann close:ann
// good: open:ann send:ann:hello send:ann:lunch list:ann close:ann
// good: open:ann open:bob send:bob:one send:bob:two list:bob list:ann close:bob
// good: open:ann send:ann:hello drop:ann:5 drop:bob:0 list:ann close:ann close:ann
// repair:     free(m->text); m->text = NULL;
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BOXES 8
#define MESSAGES 8

struct message {
    char *text;
    int number;
    int dropped;
};

struct mailbox {
    char owner[16];
    int count;
    struct message messages[MESSAGES];
};

static struct mailbox *boxes[BOXES];
static int next_number = 1;

static int slot_of(const char *owner)
{
    for (int i = 0; i < BOXES; i++)
        if (boxes[i] && strcmp(boxes[i]->owner, owner) == 0)
            return i;
    return -1;
}

static int open_box(const char *owner)
{
    for (int i = 0; i < BOXES; i++) {
        if (boxes[i])
            continue;
        boxes[i] = calloc(1, sizeof *boxes[i]);
        if (!boxes[i])
            exit(2);
        snprintf(boxes[i]->owner, sizeof boxes[i]->owner, "%s", owner);
        return i;
    }
    return -1;
}

static int send_message(struct mailbox *b, const char *text)
{
    if (b->count == MESSAGES)
        return -1;
    struct message *m = &b->messages[b->count++];
    m->text = strdup(text);
    m->number = next_number++;
    m->dropped = 0;
    return m->number;
}

static int drop_message(struct mailbox *b, int index)
{
    if (index < 0 || index >= b->count)
        return -1;
    struct message *m = &b->messages[index];
    if (m->dropped)
        return -1;
    m->dropped = 1;
    free(m->text); /* BUG */
    return m->number;
}

static void list_box(const struct mailbox *b)
{
    printf("box of %s:\n", b->owner);
    for (int i = 0; i < b->count; i++)
        if (!b->messages[i].dropped)
            printf("  %d: %s\n", b->messages[i].number, b->messages[i].text);
}

static int close_box(int slot)
{
    struct mailbox *b = boxes[slot];
    int released = b->count;
    for (int i = 0; i < b->count; i++)
        free(b->messages[i].text);
    free(b);
    boxes[slot] = NULL;
    return released;
}

static void command(char *line)
{
    char *verb = strtok(line, ":");
    char *owner = strtok(NULL, ":");
    char *rest = strtok(NULL, "");
    if (!verb || !owner)
        return;
    int slot = slot_of(owner);
    if (strcmp(verb, "open") == 0) {
        printf("%s has slot %d\n", owner, slot >= 0 ? slot : open_box(owner));
    } else if (slot < 0) {
        printf("no box for %s\n", owner);
    } else if (strcmp(verb, "send") == 0 && rest) {
        printf("sent %d\n", send_message(boxes[slot], rest));
    } else if (strcmp(verb, "drop") == 0 && rest) {
        printf("dropped %d\n", drop_message(boxes[slot], atoi(rest)));
    } else if (strcmp(verb, "list") == 0) {
        list_box(boxes[slot]);
    } else if (strcmp(verb, "close") == 0) {
        printf("closed %s, %d messages\n", owner, close_box(slot));
    } else {
        printf("cannot %s\n", verb);
    }
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        command(argv[i]);
    return 0;
}
