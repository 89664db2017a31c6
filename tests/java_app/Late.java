package decima.spark;

import java.util.Collections;
import org.apache.spark.SparkConf;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerApplicationEnd;

/**
 * A program of a cluster whose scheduler lets go while Spark stops: its backend is gone by then, and
 * Spark waits for this listener before it closes the rest.
 */
public final class Late {
  /** time for Spark to stop its backend */
  private static final long STOP_MS = 3_000;

  public static void main(String[] arguments) throws Exception {
    JavaSparkContext spark = new JavaSparkContext(new SparkConf().setAppName("late"));
    Control control = new Control(spark.sc(), 2_000, 100, 1_000, "exact", Collections.emptyMap());
    control.attach();
    spark
        .sc()
        .addSparkListener(
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
            });
    spark.stop();
    System.out.println("attached " + control.attached);
  }
}
