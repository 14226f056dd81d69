/* A run that takes a while. */
static volatile unsigned long sum;

int main(void)
{
    for (unsigned long i = 0; i < 150000000; i++)
        sum += i;
    return 0;
}
