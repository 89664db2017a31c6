package decima.spark;

import decima.policy.Policies;
import java.io.File;
import java.io.IOException;
import java.util.Collections;
import java.util.Map;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.spark.SparkContext;
import org.apache.spark.api.plugin.DriverPlugin;
import org.apache.spark.api.plugin.ExecutorPlugin;
import org.apache.spark.api.plugin.PluginContext;
import org.apache.spark.api.plugin.SparkPlugin;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** For `spark.plugins`: a policy schedules the application's concurrent jobs (docs/plugin.md). */
public final class DecimaPlugin implements SparkPlugin {
  static final Logger LOG = LoggerFactory.getLogger(DecimaPlugin.class);

  @Override
  public DriverPlugin driverPlugin() {
    return new DriverSide();
  }

  /** Executors have nothing to do. */
  @Override
  public ExecutorPlugin executorPlugin() {
    return null;
  }

  /**
   * The plugin in the driver. A wrong setting, an unfit Spark or a fault of the plugin: a warning, a
   * metric, and Spark's own order goes on under the caps. Where these cannot hold, the application does
   * not start.
   */
  static final class DriverSide implements DriverPlugin {
    /** on Spark's page of the environment; no setting, which a cloned configuration would set */
    private static final String STATUS = "decima.status";

    private final Metrics metrics = new Metrics(this::show);
    private final AtomicBoolean isRefused = new AtomicBoolean();
    private Map<String, String> given = Collections.emptyMap();
    private SparkContext context;
    private volatile Decider decider;

    /**
     * Spark calls this before its scheduler is there, and before it posts its environment.
     *
     * @throws SettingsError the application does not start (`Settings.isStop`).
     */
    @Override
    public Map<String, String> init(SparkContext sparkContext, PluginContext pluginContext) {
      context = sparkContext;
      given = Settings.given(pluginContext.conf());
      try {
        Decider.checkVersion(context.version());
        new Settings(given);
      } catch (SettingsError fault) {
        if (Settings.isStop(given, fault)) {
          throw stopping(fault);
        }
      }
      return Collections.emptyMap();
    }

    /**
     * Spark calls this once its scheduler runs, before any job.
     *
     * @throws SettingsError as for `init`, or caps cannot hold.
     */
    @Override
    public void registerMetrics(String appId, PluginContext pluginContext) {
      long began = System.nanoTime();
      try {
        metrics.register(pluginContext.metricRegistry());
        Settings settings = new Settings(given);
        metrics.serve(settings.metricsPort);
        start(settings);
        metrics.startupMs = (System.nanoTime() - began) / 1_000_000L;
      } catch (Throwable fault) {
        refuse(fault);
      }
      metrics.logState();
      metrics.watch();
    }

    private void start(Settings settings) throws Exception {
      boolean hasParameters = settings.isInside() && settings.parameters != null;
      Map<?, ?> parameters =
          hasParameters ? Policies.content(new File(settings.parameters)) : null;
      // Before it begins: a worker may refuse its policy at once.
      decider = new Decider(context, settings, parameters, this::refuse);
      metrics.of(decider);
      try {
        decider.begin();
      } catch (Throwable fault) {
        decider = null;
        metrics.of(null);
        throw fault;
      }
    }

    private static SettingsError stopping(Throwable fault) {
      return new SettingsError(
          "decima: the application stops (spark.decima.required): " + reason(fault));
    }

    private static String reason(Throwable fault) {
      boolean isTold = fault instanceof IllegalArgumentException || fault instanceof IOException;
      String text =
          fault.getMessage() == null || !(isTold || fault instanceof IllegalStateException)
              ? fault.toString()
              : fault.getMessage();
      return text.split("\n")[0];
    }

    /**
     * Say once why Spark's order goes on, before anything else is done; caps go on to hold.
     *
     * @throws SettingsError the application is not to start.
     */
    private void refuse(Throwable fault) {
      if (isRefused.getAndSet(true)) {
        return;
      }
      metrics.refuse(reason(fault));
      LOG.warn("decima does not schedule: {}", reason(fault));
      LOG.debug("the reason", fault);
      boolean isStop = Settings.isStop(given, fault);
      if (decider != null && isStop && fault instanceof SettingsError) {
        LOG.error(stopping(fault).getMessage());
        new Thread(context::stop, "decima-stop").start();
      } else if (decider != null) {
        metrics.logState();
        decider.letGo();
      } else if (isStop) {
        close();
        throw stopping(fault);
      } else {
        startCaps();
      }
    }

    /** Keep caps in force under Spark's own order, as the other settings cannot be used. */
    private void startCaps() {
      try {
        Settings left = Settings.capsOnly(given);
        serve(left.metricsPort);
        if (!left.caps.isEmpty()) {
          start(left);
        }
      } catch (Throwable fault) {
        LOG.error("caps do not hold: {}", reason(fault));
        if (Settings.hasCaps(given) && Settings.areCapsRequired(given)) {
          close();
          throw stopping(fault);
        }
      }
    }

    /** Serve metrics, on which caps do not depend. */
    private void serve(int port) {
      try {
        metrics.serve(port);
      } catch (IOException fault) {
        LOG.warn("{}", fault.getMessage());
      }
    }

    /** Put a state on Spark's page of the environment. */
    private void show(String state) {
      try {
        context.conf().set(STATUS, state);
        if (!context.isStopped()) {
          context.getClass().getMethod("postEnvironmentUpdate").invoke(context);
        }
      } catch (ReflectiveOperationException other) {
        LOG.debug("this Spark does not show its environment anew", other);
      }
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
}
