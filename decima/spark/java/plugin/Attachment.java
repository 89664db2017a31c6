package decima.spark;

import decima.policy.Planner;
import decima.policy.Policies;
import decima.policy.Policy;
import decima.policy.Priors;
import decima.policy.WarmUp;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;
import org.apache.spark.SparkContext;

/**
 * A policy attached to a session: by the plugin (`DriverSide`), or by a driver in Python
 * (decima/spark/attaching.py), which calls the public methods.
 */
public final class Attachment {
  private static final int CAPACITY = 100_000;

  final Decider decider;
  private final Map<?, ?> parameters;
  /** of a driver in Python: the plugin has its own */
  private final Metrics metrics = new Metrics(state -> {});
  private Worker worker = null;

  /**
   * For a driver in Python; nothing of Spark is touched before `start`.
   *
   * @param settings as of the plugin, without the prefix.
   * @param caps settings that are caps; they hold until `detach`, also once the policy failed.
   * @param parameters of the policy, as JSON, or null.
   * @param isGuest the policy is an object of the driver's Python, whatever its name.
   * @param priors earlier runs as JSON (`decima.spark.priors`), or null.
   */
  public Attachment(
      SparkContext context,
      Map<String, String> settings,
      Map<String, String> caps,
      String parameters,
      boolean isGuest,
      String priors)
      throws Exception {
    this(
        context,
        Settings.ofDriver(Settings.withCaps(settings, caps), isGuest),
        parameters == null ? null : Json.MAPPER.readValue(parameters, Map.class),
        fault -> DriverSide.LOG.error("{}: detaching", fault.getMessage()));
    if (priors != null) {
      decider.takePriors(Priors.of(Json.MAPPER.readValue(priors, Map.class)));
    }
  }

  /**
   * Nothing of Spark is touched before `start`.
   *
   * @param parameters of the policy, as `Policies.named` takes them, or null.
   * @param refuse receives the reason, where the decider lets go by itself.
   */
  Attachment(
      SparkContext context, Settings settings, Map<?, ?> parameters, Consumer<Throwable> refuse)
      throws Exception {
    JarClasses.load();
    checkVersion(context.version());
    this.parameters = parameters;
    Control control =
        new Control(
            context, settings.lapseMs, settings.holdMs, CAPACITY, settings.mode, settings.caps);
    control.pools.areKept = settings.arePoolsKept;
    control.isSparkOrder = settings.isSparkOrder() || settings.isAuto();
    Policy absent = Policies.named(settings.standIn, null);
    Planner planner =
        settings.isSparkOrder()
            ? null
            : new Planner(null, absent, settings.starveMs, settings.idleMs);
    decider = new Decider(settings, control, planner, refuse);
    if (settings.needsPython()) {
      worker =
          new Worker(
              settings,
              control,
              reason -> decider.refuse(new SettingsError(reason)),
              decider::takePriors);
    }
    choosePolicy(settings, control, planner, absent);
    if (settings.coordinator != null) {
      decider.follow(new Follower(settings, control));
    }
  }

  private void choosePolicy(
      Settings settings, Control control, Planner planner, Policy absent) {
    Judge judge = null;
    if (settings.isAuto()) {
      judge =
          new Judge(
              control,
              planner,
              worker,
              name -> new OutsidePolicy(name, worker, absent, settings.decisionMs));
    } else if (!settings.isInside()) {
      planner.switchTo(new OutsidePolicy(settings.policy, worker, absent, settings.decisionMs));
    } else if (planner != null) {
      planner.switchTo(Policies.named(settings.policy, parameters));
    }
    decider.ask(worker, judge);
  }

  /** Attach and begin to decide; all or nothing. */
  public void start() throws Exception {
    Settings settings = decider.settings;
    decider.begin(parameters);
    if (settings.isInDriver) {
      metrics.of(decider);
      metrics.serve(settings.metricsPort);
      metrics.health.watch();
    }
    if (settings.isInside() && !settings.isSparkOrder()) {
      // A policy of its own: what decides must not remember jobs that do not exist.
      WarmUp.inBackground(Policies.named(settings.policy, parameters));
    }
  }

  static void checkVersion(String version) {
    String[] parts = version.split("[^0-9]+");
    int major = Integer.parseInt(parts[0]);
    int minor = Integer.parseInt(parts[1]);
    List<Integer> oldest = Json.shared("oldest_spark");
    boolean isOld = major < oldest.get(0) || (major == oldest.get(0) && minor < oldest.get(1));
    if (isOld || major > Json.<Integer>shared("newest_spark_major")) {
      throw new SettingsError(
          "Spark " + version + ": supported are " + oldest.get(0) + "." + oldest.get(1) + " to "
              + Json.shared("newest_spark_major") + ".x");
    }
  }

  /** The port at which the driver's Python is waited for; 0: it is not needed. */
  public int port() {
    return worker == null ? 0 : worker.port();
  }

  /** What it must say first. */
  public String secret() {
    return worker == null ? "" : worker.secret();
  }

  /** A picture of now, as JSON (`decima.spark.status`). */
  public String status() throws Exception {
    return Json.text(decider.picture());
  }

  /** Give Spark its own objects back; jobs that run go on. Twice does no harm. */
  public void detach() {
    decider.close();
    metrics.close();
  }
}
