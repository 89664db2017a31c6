package decima.spark;

import java.util.Collections;
import org.apache.spark.SparkConf;
import org.apache.spark.api.java.JavaSparkContext;

/** A program of a cluster that ends before the scheduler lets go: there is no backend any more. */
public final class Late {
  public static void main(String[] arguments) throws Exception {
    JavaSparkContext spark = new JavaSparkContext(new SparkConf().setAppName("late"));
    Control control =
        new Control(spark.sc(), 2_000, 100, 1_000, "exact", Collections.emptyMap());
    control.attach();
    spark.stop();
    control.detach();
    System.out.println("attached " + control.attached);
  }
}
