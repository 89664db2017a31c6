package decima.spark;

import decima.policy.Planner;
import decima.policy.Policies;
import decima.policy.Rehearsal;
import java.util.Collections;
import java.util.Map;
import org.apache.spark.SparkContext;
import org.apache.spark.api.plugin.DriverPlugin;
import org.apache.spark.api.plugin.PluginContext;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The plugin in the driver. Whatever is wrong with a setting, with this Spark or with us: one warning,
 * a metric, and Spark goes on as if we were not there.
 */
final class DriverSide implements DriverPlugin {
  static final Logger LOG = LoggerFactory.getLogger(DecimaPlugin.class);
  private static final int CAPACITY = 100_000;
  private static final int OLDEST_MAJOR = 3;
  private static final int OLDEST_MINOR = 5;
  private static final int NEWEST_MAJOR = 4;
  /** after so many the next plan takes less than 1 ms (benchmarks/jvm_decisions.py) */
  private static final int REHEARSED_PLANS = 100;

  private final Metrics metrics = new Metrics();
  private SparkContext context;
  private Decider decider;

  @Override
  public Map<String, String> init(SparkContext sparkContext, PluginContext pluginContext) {
    context = sparkContext;
    return Collections.emptyMap();
  }

  /** Spark calls this once its scheduler runs, before any job. */
  @Override
  public void registerMetrics(String appId, PluginContext pluginContext) {
    long began = System.nanoTime();
    try {
      metrics.register(pluginContext.metricRegistry());
      Settings settings = Settings.of(pluginContext.conf());
      if (settings.metricsPort >= 0) {
        metrics.serve(settings.metricsPort);
      }
      start(settings);
      metrics.startupMs = (System.nanoTime() - began) / 1_000_000L;
      LOG.info("decima schedules: {}, in {} ms", settings, metrics.startupMs);
    } catch (Throwable fault) {
      refuse(fault);
    }
  }

  private void start(Settings settings) throws Exception {
    checkVersion(context.version());
    Planner planner =
        settings.beginsInSparkOrder()
            ? null
            : new Planner(
                Policies.named(settings.standIn(), settings.standInParameters()),
                settings.starveMs,
                settings.idleMs);
    Control control =
        new Control(
            context, settings.lapseMs, settings.holdMs, CAPACITY, settings.isShadow(), settings.caps);
    control.isSparkOrder = settings.beginsInSparkOrder();
    Worker worker = settings.needsWorker() ? new Worker(settings, control) : null;
    Decider made = new Decider(settings, control, planner, worker, this::refuse);
    metrics.of(made);
    made.start();
    decider = made;
    if (planner != null) {
      rehearse(settings);
    }
  }

  /** Let the first real plan find compiled code; neither Spark nor a plan waits for this. */
  private static void rehearse(Settings settings) {
    Runnable all =
        () -> {
          try {
            // A policy of its own: what decides must not remember jobs that do not exist.
            Rehearsal.run(
                Policies.named(settings.standIn(), settings.standInParameters()), REHEARSED_PLANS);
          } catch (RuntimeException fault) {
            LOG.debug("rehearsal", fault);
          }
        };
    Thread thread = new Thread(all, "decima-rehearsal");
    thread.setDaemon(true);
    thread.start();
  }

  private static void checkVersion(String version) {
    String[] parts = version.split("[^0-9]+");
    int major = Integer.parseInt(parts[0]);
    int minor = Integer.parseInt(parts[1]);
    boolean isOld = major < OLDEST_MAJOR || (major == OLDEST_MAJOR && minor < OLDEST_MINOR);
    if (isOld || major > NEWEST_MAJOR) {
      throw new IllegalStateException("Spark " + version + ": supported are 3.5 to 4.x");
    }
  }

  /** Say once why Spark goes on without us. */
  private void refuse(Throwable fault) {
    metrics.isRefused = true;
    String reason = fault.getMessage() == null ? fault.toString() : fault.getMessage();
    LOG.warn("decima does not schedule, Spark goes on unchanged: {}", reason.split("\n")[0]);
    LOG.debug("the reason", fault);
    if (decider != null) {
      decider.close();
    }
  }

  @Override
  public void shutdown() {
    try {
      if (decider != null) {
        decider.close();
      }
      metrics.close();
    } catch (Throwable fault) {
      LOG.debug("shutdown", fault);
    }
  }
}
