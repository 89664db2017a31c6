package decima.spark;

import decima.policy.Policies;
import java.io.File;
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
      Attachment.checkVersion(context.version());
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
    metrics.serve(settings.metricsPort);
    boolean hasParameters = settings.isInside() && settings.parameters != null;
    Attachment made =
        new Attachment(
            context,
            settings,
            hasParameters ? Policies.content(new File(settings.parameters)) : null,
            this::refuse);
    metrics.of(made.decider);
    decider = made.decider; // a worker may refuse its policy at once
    try {
      made.start();
    } catch (Exception fault) {
      decider = null;
      throw fault;
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
