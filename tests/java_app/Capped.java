package decima.spark;

import java.util.Collections;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.spark.SparkConf;
import org.apache.spark.api.java.JavaSparkContext;

/**
 * A program whose caps must hold. With "silent" its planner is silent from the start, as a hung
 * one; with "lost" the events of a Thrift server's statement are, so that its user stays unknown.
 */
public final class Capped {
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
    boolean isSilent = arguments[0].equals("silent");
    try (JavaSparkContext spark = new JavaSparkContext(new SparkConf().setAppName("capped"))) {
      Control control =
          new Control(
              spark.sc(), 100, 10, 1_000, "exact",
              Collections.singletonMap(isSilent ? "user bob" : "user", 2));
      control.attach();
      if (isSilent) {
        spark.setLocalProperty("decima.user", "bob");
        Thread.sleep(4_000);
        System.out.println("abandoned " + control.counters.abandoned.get());
      } else {
        spark.sc().listenerBus().removeListener(control.events);
        spark.setJobGroup("statement", "of a server");
      }
      spark.parallelize(Collections.nCopies(24, 1), 24).map(Capped::nap).count();
      System.out.println("most " + MOST.get());
      // A set goes a moment after the end of its job: wait for that, not for a fixed time.
      for (int looks = 0; isSilent && looks < 300 && !left(control).equals("0"); looks++) {
        Thread.sleep(100);
      }
      if (isSilent) {
        System.out.println("left " + left(control));
      }
      control.detach();
    }
  }
}
