package decima.spark;

import java.util.Collections;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.spark.SparkConf;
import org.apache.spark.api.java.JavaSparkContext;

/** A program whose planner is silent from the start, as a hung one: caps must hold. */
public final class SilentPlanner {
  private static final AtomicInteger RUNNING = new AtomicInteger();
  private static final AtomicInteger MOST = new AtomicInteger();

  private static int nap(int number) throws InterruptedException {
    MOST.accumulateAndGet(RUNNING.incrementAndGet(), Math::max);
    Thread.sleep(100);
    RUNNING.decrementAndGet();
    return number;
  }

  private static String left(Control control) {
    return String.valueOf(control.counters.now(control).get("task_sets"));
  }

  public static void main(String[] arguments) throws Exception {
    try (JavaSparkContext spark = new JavaSparkContext(new SparkConf().setAppName("silent planner"))) {
      Control control =
          new Control(
              spark.sc(), 100, 10, 1_000, "exact", Collections.singletonMap("user bob", 2));
      control.attach();
      spark.setLocalProperty("decima.user", "bob");
      Thread.sleep(4_000);
      System.out.println("abandoned " + control.counters.abandoned.get());
      spark.parallelize(Collections.nCopies(24, 1), 24).map(SilentPlanner::nap).count();
      System.out.println("most " + MOST.get());
      // A set goes a moment after the end of its job: wait for that, not for a fixed time.
      String left = left(control);
      for (int looks = 0; looks < 300 && !left.equals("0"); looks++) {
        Thread.sleep(100);
        left = left(control);
      }
      System.out.println("left " + left);
      control.detach();
    }
  }
}
