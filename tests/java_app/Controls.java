package decima.spark;

import java.util.Collections;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.spark.SparkConf;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerApplicationEnd;

/** Programs that attach without a planner, in rare circumstances; the argument names one. */
public final class Controls {
  /** time for Spark to stop its backend */
  private static final long STOP_MS = 3_000;
  private static final AtomicInteger RUNNING = new AtomicInteger();
  private static final AtomicInteger MOST = new AtomicInteger();

  public static void main(String[] arguments) throws Exception {
    try (JavaSparkContext spark = new JavaSparkContext(new SparkConf().setAppName("controls"))) {
      switch (arguments[0]) {
        case "silent":
          silent(spark);
          break;
        case "lost":
          lost(spark);
          break;
        default:
          late(spark);
      }
    }
  }

  private static Control attached(JavaSparkContext spark, long lapseMs, Map<String, Integer> caps)
      throws Exception {
    Control control = new Control(spark.sc(), lapseMs, 10, 1_000, "exact", caps);
    control.attach();
    return control;
  }

  private static int nap(int number) throws InterruptedException {
    MOST.accumulateAndGet(RUNNING.incrementAndGet(), Math::max);
    Thread.sleep(100);
    RUNNING.decrementAndGet();
    return number;
  }

  private static void work(JavaSparkContext spark) {
    spark.parallelize(Collections.nCopies(24, 1), 24).map(Controls::nap).count();
    System.out.println("most " + MOST.get());
  }

  /** The planner is silent from the start, as a hung one: caps must hold. */
  private static void silent(JavaSparkContext spark) throws Exception {
    Control control = attached(spark, 100, Collections.singletonMap("user bob", 2));
    spark.setLocalProperty("decima.user", "bob");
    Thread.sleep(4_000);
    System.out.println("abandoned " + control.counters.abandoned.get());
    work(spark);
    // A set goes a moment after the end of its job: wait for that, not for a fixed time.
    Object left = control.counters.now(control).get("task_sets");
    for (int looks = 0; looks < 300 && !left.equals(0); looks++) {
      Thread.sleep(100);
      left = control.counters.now(control).get("task_sets");
    }
    System.out.println("left " + left);
    control.detach();
  }

  /** The events of a Thrift server's statement are lost, so that its user stays unknown. */
  private static void lost(JavaSparkContext spark) throws Exception {
    Control control = attached(spark, 100, Collections.singletonMap("user", 2));
    spark.sc().listenerBus().removeListener(control.events);
    spark.setJobGroup("statement", "of a server");
    work(spark);
    control.detach();
  }

  /**
   * In a cluster, the scheduler lets go while Spark stops: its backend is gone by then, and Spark waits
   * for this listener before it closes the rest.
   */
  private static void late(JavaSparkContext spark) throws Exception {
    Control control = attached(spark, 2_000, Collections.emptyMap());
    SparkListener listener =
        new SparkListener() {
          @Override
          public void onApplicationEnd(SparkListenerApplicationEnd event) {
            try {
              Thread.sleep(STOP_MS);
              control.detach();
            } catch (Exception fault) {
              throw new IllegalStateException(fault);
            }
          }
        };
    spark.sc().addSparkListener(listener);
    spark.stop();
    System.out.println("attached " + control.attached);
  }
}
