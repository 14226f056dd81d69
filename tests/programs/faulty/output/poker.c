// Plays hands of five-card poker with a fixed way of betting and prints who won what; a straight from the ace up to five is not seen as one.
// fails: output
// run: 3 40
// good: 1 40
// good: 3 10
// good: 4 60
// repair: return is_run(ranks, 0) ? ranks[0] : ranks[0] == ACE && ranks[1] == 5 && is_run(ranks, 1) ? 5 : 0;
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PLAYERS 5
#define HAND 5
#define ACE 14
#define ANTE 2

struct card {
    int rank; /* 2 to 14 */
    int suit;
};

enum class { HIGH, PAIR, TWO_PAIRS, THREE, STRAIGHT, FLUSH, FULL, FOUR, STRAIGHT_FLUSH };

struct player {
    const char *name;
    int chips;
    enum class bold; /* from this class on the player raises */
    struct card hand[HAND];
    enum class class;
    long value;
    int bet;
    int folded;
    int won;
};

struct deck {
    struct card cards[52];
    int next;
    unsigned seed;
};

static unsigned draw_number(struct deck *d, unsigned below)
{
    d->seed = d->seed * 1664525u + 1013904223u;
    return (d->seed >> 12) % below;
}

static void shuffle(struct deck *d)
{
    for (int i = 0; i < 52; i++) {
        d->cards[i].rank = i % 13 + 2;
        d->cards[i].suit = i / 13;
    }
    for (int i = 51; i > 0; i--) {
        int k = draw_number(d, i + 1);
        struct card t = d->cards[i];
        d->cards[i] = d->cards[k];
        d->cards[k] = t;
    }
    d->next = 0;
}

static void sort_hand(struct card *hand)
{
    for (int i = 1; i < HAND; i++) {
        struct card c = hand[i];
        int k = i;
        while (k > 0 && hand[k - 1].rank < c.rank) {
            hand[k] = hand[k - 1];
            k--;
        }
        hand[k] = c;
    }
}

/* Whether the ranks fall by one from the given place on. */
static int is_run(const int *ranks, int from)
{
    for (int i = from + 1; i < HAND; i++)
        if (ranks[i] != ranks[i - 1] - 1)
            return 0;
    return 1;
}

/* The highest rank of a straight; 0 if it is none. */
static int straight_to(const int *ranks)
{
    return is_run(ranks, 0) ? ranks[0] : 0; /* BUG */
}

static enum class class_of_groups(const int *counts)
{
    int pairs = 0, threes = 0;
    for (int r = 2; r <= ACE; r++) {
        if (counts[r] == 4)
            return FOUR;
        if (counts[r] == 3)
            threes++;
        if (counts[r] == 2)
            pairs++;
    }
    if (threes)
        return pairs ? FULL : THREE;
    return pairs == 2 ? TWO_PAIRS : pairs ? PAIR : HIGH;
}

/* Puts the class before the ranks, the larger groups first, so that the better hand has the larger value. */
static void rate(struct player *p)
{
    int ranks[HAND], counts[ACE + 1] = {0};
    int flush = 1;

    for (int i = 0; i < HAND; i++) {
        ranks[i] = p->hand[i].rank;
        counts[ranks[i]]++;
        flush &= p->hand[i].suit == p->hand[0].suit;
    }
    p->class = class_of_groups(counts);
    int straight = straight_to(ranks);
    if (straight)
        p->class = flush ? STRAIGHT_FLUSH : STRAIGHT;
    else if (flush)
        p->class = FLUSH;

    p->value = p->class;
    if (straight) {
        p->value = p->value << 20 | straight;
        return;
    }
    for (int size = 4; size >= 1; size--)
        for (int r = ACE; r >= 2; r--)
            for (int k = 0; k < size && counts[r] == size; k++)
                p->value = p->value << 4 | r;
}

static void deal(struct deck *d, struct player *players)
{
    for (int i = 0; i < PLAYERS; i++) {
        for (int k = 0; k < HAND; k++)
            players[i].hand[k] = d->cards[d->next++];
        sort_hand(players[i].hand);
        rate(&players[i]);
        players[i].folded = players[i].chips <= 0;
        players[i].bet = 0;
    }
}

static void pay(struct player *p, int amount)
{
    if (amount > p->chips)
        amount = p->chips;
    p->chips -= amount;
    p->bet += amount;
}

static int bet_round(struct player *players)
{
    int stake = ANTE, pot = 0;

    for (int i = 0; i < PLAYERS; i++) {
        struct player *p = &players[i];
        if (p->folded)
            continue;
        pay(p, ANTE);
        if (p->class >= p->bold)
            stake += ANTE + p->chips / 20 + 2 * (int)p->class;
    }
    for (int i = 0; i < PLAYERS; i++) {
        struct player *p = &players[i];
        if (!p->folded && stake > ANTE && p->class < PAIR && p->hand[0].rank < ACE)
            p->folded = 1;
        if (!p->folded)
            pay(p, stake - p->bet);
        pot += p->bet;
    }
    return pot;
}

static struct player *best_of(struct player *players)
{
    struct player *best = NULL;
    for (int i = 0; i < PLAYERS; i++)
        if (!players[i].folded && (!best || players[i].value > best->value))
            best = &players[i];
    return best;
}

static int play(struct deck *d, struct player *players)
{
    shuffle(d);
    deal(d, players);
    int pot = bet_round(players);
    struct player *winner = best_of(players);
    if (!winner)
        winner = &players[0];
    winner->chips += pot;
    winner->won++;
    return pot;
}

int main(int argc, char **argv)
{
    struct player players[PLAYERS] = {{"Ada", 500, PAIR}, {"Bram", 500, TWO_PAIRS}, {"Cleo", 500, PAIR}, {"Dirk", 500, HIGH}, {"Elsa", 500, THREE}};
    struct deck d = {.seed = 0};
    int largest = 0;

    if (argc != 3) {
        fprintf(stderr, "usage: poker SEED HANDS\n");
        return 2;
    }
    d.seed = (unsigned)atoi(argv[1]);
    int hands = atoi(argv[2]);
    for (int i = 0; i < hands; i++) {
        int pot = play(&d, players);
        if (pot > largest)
            largest = pot;
    }
    printf("%d hands, largest pot %d\n", hands, largest);
    for (int i = 0; i < PLAYERS; i++)
        printf("%-5s won %2d, has %4d\n", players[i].name, players[i].won, players[i].chips);
    return 0;
}
