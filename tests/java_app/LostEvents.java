package decima.spark;

import java.util.Collections;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.spark.SparkConf;
import org.apache.spark.api.java.JavaSparkContext;

/** A statement of a Thrift server whose events are lost, so that its user stays unknown. */
public final class LostEvents {
  private static final AtomicInteger RUNNING = new AtomicInteger();
  private static final AtomicInteger MOST = new AtomicInteger();

  private static int nap(int number) throws InterruptedException {
    MOST.accumulateAndGet(RUNNING.incrementAndGet(), Math::max);
    Thread.sleep(100);
    RUNNING.decrementAndGet();
    return number;
  }

  public static void main(String[] arguments) throws Exception {
    try (JavaSparkContext spark = new JavaSparkContext(new SparkConf().setAppName("lost events"))) {
      Control control =
          new Control(spark.sc(), 100, 10, 1_000, "exact", Collections.singletonMap("user", 2));
      control.attach();
      spark.sc().listenerBus().removeListener(control.events);
      spark.setJobGroup("statement", "of a server");
      spark.parallelize(Collections.nCopies(16, 1), 16).map(LostEvents::nap).count();
      System.out.println("most " + MOST.get());
      control.detach();
    }
  }
}
