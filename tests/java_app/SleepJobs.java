import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.spark.SparkConf;
import org.apache.spark.api.java.JavaSparkContext;

/**
 * A program without Python: concurrent jobs of tasks that sleep, and how many ran at once.
 *
 * <p>Arguments: for each job its name, user (nothing: none), group and number of tasks, joined by
 * commas.
 */
public final class SleepJobs {
  private static final Map<String, int[]> RUNNING = new ConcurrentHashMap<>();
  private static final AtomicInteger MOST_JOBS = new AtomicInteger();

  /** One more or one fewer task of `who` runs now. */
  private static void change(String who, int by) {
    RUNNING.compute(
        who,
        (name, before) -> {
          int now = (before == null ? 0 : before[0]) + by;
          return new int[] {now, Math.max(now, before == null ? 0 : before[1])};
        });
  }

  private static Integer sleep(String[] who, long ms) throws InterruptedException {
    for (String one : who) {
      change(one, 1);
    }
    long jobs =
        RUNNING.entrySet().stream()
            .filter(entry -> entry.getKey().startsWith("job ") && entry.getValue()[0] > 0)
            .count();
    MOST_JOBS.accumulateAndGet((int) jobs, Math::max);
    Thread.sleep(ms);
    for (String one : who) {
      change(one, -1);
    }
    return 1;
  }

  /** For queries: sleep 100 ms as a user. */
  public static String nap(String user) throws InterruptedException {
    sleep(new String[] {user}, 100);
    return user;
  }

  /** For queries: how many naps of each user were at once, as "ann 2 bob 2". */
  public static String peaks() {
    StringBuilder text = new StringBuilder();
    new TreeMap<>(RUNNING).forEach((user, counts) -> text.append(user + " " + counts[1] + " "));
    return text.toString().trim();
  }

  public static void main(String[] arguments) throws Exception {
    try (JavaSparkContext spark = new JavaSparkContext(new SparkConf().setAppName("sleep"))) {
      List<Thread> threads = new ArrayList<>();
      for (String job : arguments) {
        Thread thread = new Thread(() -> run(spark, job.split(",")));
        threads.add(thread);
        thread.start();
      }
      for (Thread thread : threads) {
        thread.join();
      }
    }
    System.out.println("most jobs " + MOST_JOBS);
    RUNNING.forEach((who, counts) -> System.out.println("most " + who + " " + counts[1]));
  }

  private static void run(JavaSparkContext spark, String[] job) {
    spark.setLocalProperty("decima.job", job[0]);
    spark.setLocalProperty("decima.user", job[1].isEmpty() ? null : job[1]);
    spark.setLocalProperty("spark.jobGroup.id", job[2]);
    spark.setLocalProperty("spark.scheduler.pool", job[2]);
    String[] who = {"job " + job[0], "user " + job[1], "group " + job[2], "all"};
    int tasks = Integer.parseInt(job[3]);
    long found =
        spark.parallelize(Collections.nCopies(tasks, 100L), tasks).map(ms -> sleep(who, ms)).count();
    System.out.println("done " + job[0] + " " + found);
  }
}
