// Loops, sums, sections and tasks that OpenMP divides among threads, used as one should: its library orders threads by means of its own.
// flags: -fopenmp
#include <omp.h>

enum { COUNT = 300 };
int numbers[COUNT], tens[10], highest, once, turns;

int main(void)
{
    long sum = 0;
    omp_lock_t lock;
    omp_init_lock(&lock);
    #pragma omp parallel num_threads(3)
    {
        #pragma omp for
        for (int i = 0; i < COUNT; i++)
            numbers[i] = i;
        #pragma omp for reduction(+ : sum) schedule(dynamic, 7)
        for (int i = 0; i < COUNT; i++)
            sum += numbers[COUNT - 1 - i];
        #pragma omp for
        for (int i = 0; i < COUNT; i++) {
            #pragma omp atomic
            tens[numbers[i] % 10]++;
            #pragma omp critical
            if (numbers[i] > highest)
                highest = numbers[i];
        }
        #pragma omp single
        {
            once = 1;
            for (int i = 0; i < 10; i++) {
                #pragma omp task firstprivate(i)
                numbers[i] += once;
            }
        }
        omp_set_lock(&lock);
        turns += once;
        omp_unset_lock(&lock);
    }
    return sum != 44850 || tens[3] != 30 || highest != COUNT - 1 || turns != 3 || numbers[9] != 10;
}
