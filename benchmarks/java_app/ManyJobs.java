import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.spark.SparkConf;
import org.apache.spark.api.java.JavaSparkContext;

/**
 * Keeps many jobs in a session at once: a thread for each, as on a SQL server, runs one after the
 * other until time is up. Tasks sleep.
 *
 * <p>Arguments: jobs at once, tasks of a job, milliseconds a task sleeps, seconds. Prints the jobs
 * that were completed, the heap in use before and after in MB, and the CPU seconds taken.
 */
public final class ManyJobs {
  private static final double MB = 1 << 20;
  private static final int WARM_UP_TASKS = 1_000;
  /** for who reads metrics when time is up */
  private static final long LAST_LOOK_MS = 2_000;

  public static void main(String[] arguments) throws Exception {
    int jobs = Integer.parseInt(arguments[0]);
    int tasks = Integer.parseInt(arguments[1]);
    long sleepMs = Long.parseLong(arguments[2]);
    AtomicInteger done = new AtomicInteger();
    try (JavaSparkContext spark = new JavaSparkContext(new SparkConf().setAppName("many"))) {
      run(spark, "warm-up", Math.min(tasks, WARM_UP_TASKS), 1);
      double beforeMb = heapMb();
      long ends = System.nanoTime() + Long.parseLong(arguments[3]) * 1_000_000_000L;
      long began = cpuNs();
      List<Thread> threads = new ArrayList<>();
      for (int index = 0; index < jobs; index++) {
        String name = "job " + index;
        threads.add(new Thread(() -> repeat(spark, name, tasks, sleepMs, ends, done)));
      }
      threads.forEach(Thread::start);
      Thread.sleep(Math.max(0, (ends - System.nanoTime()) / 1_000_000L));
      System.out.println("done " + done.get());
      System.out.println("cpu_s " + (cpuNs() - began) / 1e9);
      Thread.sleep(LAST_LOOK_MS);
      spark.sc().cancelAllJobs();
      for (Thread thread : threads) {
        thread.join();
      }
      System.out.println("heap_mb " + beforeMb + " " + heapMb());
    }
  }

  private static void repeat(
      JavaSparkContext spark, String name, int tasks, long sleepMs, long ends, AtomicInteger done) {
    try {
      for (int turn = 0; System.nanoTime() < ends; turn++) {
        spark.setLocalProperty("decima.job", name + " " + turn);
        run(spark, name, tasks, sleepMs);
        done.incrementAndGet();
      }
    } catch (Exception cancelled) {
      // Time is up.
    }
  }

  private static void run(JavaSparkContext spark, String name, int tasks, long sleepMs) {
    spark.parallelize(Collections.nCopies(tasks, sleepMs), tasks).foreach(Thread::sleep);
  }

  private static double heapMb() {
    System.gc();
    return ManagementFactory.getMemoryMXBean().getHeapMemoryUsage().getUsed() / MB;
  }

  private static long cpuNs() {
    return ((com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean())
        .getProcessCpuTime();
  }
}
