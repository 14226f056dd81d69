// The dynamic loader saves vector registers below the frame of a function that calls another one for the first time.
// finds: branch stack
#include <unistd.h>
int count;
static int use(void) {
    int numbers[40];
    getppid();
    if (numbers[24] > 7) /* HERE */
        count++;
    return count;
}
int main(void) {
    use();
    return 0;
}
