package decima.spark;

import org.apache.spark.api.plugin.DriverPlugin;
import org.apache.spark.api.plugin.ExecutorPlugin;
import org.apache.spark.api.plugin.SparkPlugin;

/** For `spark.plugins`: a policy schedules the application's concurrent jobs (docs/plugin.md). */
public final class DecimaPlugin implements SparkPlugin {
  @Override
  public DriverPlugin driverPlugin() {
    return new DriverSide();
  }

  /** Executors have nothing to do. */
  @Override
  public ExecutorPlugin executorPlugin() {
    return null;
  }
}
