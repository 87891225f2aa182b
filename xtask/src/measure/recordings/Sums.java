import java.util.concurrent.*;
import java.util.stream.*;

/** Work of several threads, whose order shows. */
public class Sums {
    public static void main(String[] args) throws Exception {
        long sum = LongStream.range(0, 3_000_000).parallel().map(n -> n * n % 7).sum();
        ConcurrentLinkedQueue<Integer> order = new ConcurrentLinkedQueue<>();
        ExecutorService pool = Executors.newFixedThreadPool(4);
        for (int i = 0; i < 200; i++) {
            int n = i;
            pool.submit(() -> order.add(n));
        }
        pool.shutdown();
        pool.awaitTermination(1, TimeUnit.MINUTES);
        System.out.println(sum + " " + order.hashCode() + " " + order + " " + System.nanoTime());
    }
}
