/** Threads that add, and collect what they found under a lock. */
public class Sums {
    private static long sum;

    private static synchronized void add(long value) {
        sum += value;
    }

    public static void main(String[] args) throws InterruptedException {
        int count = Integer.parseInt(args[0]);
        long rounds = Long.parseLong(args[1]);
        Thread[] threads = new Thread[count];
        for (int i = 0; i < count; i++) {
            final int number = i;
            threads[i] = new Thread(() -> {
                for (long round = 0; round < rounds; round++) {
                    add((round * 31 + number) % 17);
                }
            });
            threads[i].start();
        }
        for (Thread thread : threads) {
            thread.join();
        }
        System.out.println(sum);
    }
}
