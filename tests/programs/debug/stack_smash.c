/* A return address is overwritten. */
static void fill(long *words, int count)
{
    for (int i = 0; i < count; i++)
        words[i] = 0x4343434343434343; /* CULPRIT */
}

static int count(int wanted)
{
    long words[4];
    fill(words, wanted);
    return (int)words[0];
}

int main(void)
{
    return count(8);
}
