package decima.spark;

import decima.policy.Planner;
import decima.policy.Policies;
import decima.policy.WarmUp;
import java.util.Collections;
import java.util.Map;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.spark.SparkContext;
import org.apache.spark.api.plugin.DriverPlugin;
import org.apache.spark.api.plugin.PluginContext;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The plugin in the driver. Whatever is wrong with a setting, with this Spark or with us: one warning,
 * a metric, and Spark's own order goes on, under the caps that can be read.
 */
final class DriverSide implements DriverPlugin {
  static final Logger LOG = LoggerFactory.getLogger(DecimaPlugin.class);
  private static final int CAPACITY = 100_000;
  private static final int OLDEST_MAJOR = 3;
  private static final int OLDEST_MINOR = 5;
  private static final int NEWEST_MAJOR = 4;
  /** after so many the next plan takes less than 1 ms (benchmarks/jvm_decisions.py) */
  private static final int WARM_UP_PLANS = 100;

  /** on Spark's page of the environment; no setting, which a cloned configuration would set */
  private static final String STATUS = "decima.status";

  private final Metrics metrics = new Metrics();
  private final AtomicBoolean isRefused = new AtomicBoolean();
  private Map<String, String> given = Collections.emptyMap();
  private SparkContext context;
  private volatile Decider decider;

  /**
   * Spark calls this before its scheduler is there, and before it tells of its environment.
   *
   * @throws SettingsError a setting cannot be used, and `required` is set: the application stops.
   */
  @Override
  public Map<String, String> init(SparkContext sparkContext, PluginContext pluginContext) {
    context = sparkContext;
    given = Settings.given(pluginContext.conf());
    String status;
    try {
      checkVersion(context.version());
      status = "schedules: " + new Settings(given);
    } catch (SettingsError fault) {
      if (Settings.isRequired(given)) {
        throw stopping(fault);
      }
      status = "does not schedule: " + fault.getMessage();
    }
    pluginContext.conf().set(STATUS, status);
    return Collections.emptyMap();
  }

  /**
   * Spark calls this once its scheduler runs, before any job.
   *
   * @throws SettingsError as for `init`.
   */
  @Override
  public void registerMetrics(String appId, PluginContext pluginContext) {
    long began = System.nanoTime();
    try {
      metrics.register(pluginContext.metricRegistry());
      Settings settings = new Settings(given);
      start(settings);
      metrics.startupMs = (System.nanoTime() - began) / 1_000_000L;
      // No warning, but Spark's shells show nothing below: who uses them must see who schedules.
      LOG.warn("decima schedules: {}, in {} ms", settings, metrics.startupMs);
    } catch (Throwable fault) {
      if (Settings.isRequired(given)) {
        close();
        throw stopping(fault);
      }
      refuse(fault);
    }
  }

  private void start(Settings settings) throws Exception {
    checkVersion(context.version());
    if (settings.metricsPort >= 0) {
      metrics.serve(settings.metricsPort);
    }
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
    decider = made; // a worker may refuse its policy at once
    try {
      made.start();
    } catch (RuntimeException fault) {
      decider = null;
      throw fault;
    }
    if (planner != null) {
      warmUp(settings);
    }
  }

  /** Let the first real plan find compiled code; neither Spark nor a plan waits for this. */
  private static void warmUp(Settings settings) {
    Runnable all =
        () -> {
          try {
            // A policy of its own: what decides must not remember jobs that do not exist.
            WarmUp.run(
                Policies.named(settings.standIn(), settings.standInParameters()), WARM_UP_PLANS);
          } catch (RuntimeException fault) {
            LOG.debug("warm-up", fault);
          }
        };
    Thread thread = new Thread(all, "decima-warm-up");
    thread.setDaemon(true);
    thread.start();
  }

  private static void checkVersion(String version) {
    String[] parts = version.split("[^0-9]+");
    int major = Integer.parseInt(parts[0]);
    int minor = Integer.parseInt(parts[1]);
    boolean isOld = major < OLDEST_MAJOR || (major == OLDEST_MAJOR && minor < OLDEST_MINOR);
    if (isOld || major > NEWEST_MAJOR) {
      throw new SettingsError("Spark " + version + ": supported are 3.5 to 4.x");
    }
  }

  private static SettingsError stopping(Throwable fault) {
    return new SettingsError(
        "spark.decima.required: the application stops, since decima cannot schedule it: "
            + reason(fault));
  }

  private static String reason(Throwable fault) {
    String found = fault.getMessage() == null ? fault.toString() : fault.getMessage();
    return found.split("\n")[0];
  }

  /** Say once why Spark's order goes on; caps go on to hold. */
  private void refuse(Throwable fault) {
    if (isRefused.getAndSet(true)) {
      return;
    }
    metrics.isRefused = true;
    LOG.debug("the reason", fault);
    if (fault instanceof SettingsError && Settings.isRequired(given)) {
      LOG.error(stopping(fault).getMessage());
      new Thread(context::stop, "decima-stop").start();
      return;
    }
    LOG.warn("decima does not schedule, {}: {}", holdCaps(), reason(fault));
  }

  /** Let go of order; what holds from now on. */
  private String holdCaps() {
    if (decider != null) {
      decider.letGo();
      return withCaps(decider.settings);
    }
    Settings left = Settings.capsOnly(given);
    if (left.caps.isEmpty()) {
      return "Spark goes on unchanged";
    }
    try {
      start(left);
      return withCaps(left);
    } catch (Throwable fault) {
      return "caps do not hold (" + reason(fault) + "), Spark goes on unchanged";
    }
  }

  private static String withCaps(Settings settings) {
    return settings.caps.isEmpty() || settings.isShadow()
        ? "Spark goes on unchanged"
        : "Spark's own order goes on under caps " + settings.caps;
  }

  @Override
  public void shutdown() {
    close();
  }

  private void close() {
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
