package decima.spark;

import decima.policy.Priors;
import java.util.Map;
import org.apache.spark.SparkContext;

/** What a driver in Python (decima/spark/attaching.py) calls: a policy attached to its session. */
public final class Attachment {
  private final Decider decider;
  private final Metrics metrics = new Metrics(state -> {});

  /**
   * Nothing of Spark is touched before `start`.
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
    decider =
        new Decider(
            context,
            Settings.ofDriver(Settings.withCaps(settings, caps), isGuest),
            parameters == null ? null : Json.MAPPER.readValue(parameters, Map.class),
            fault -> DecimaPlugin.LOG.error("{}: detaching", fault.getMessage()));
    if (priors != null) {
      decider.takePriors(Priors.of(Json.MAPPER.readValue(priors, Map.class)));
    }
  }

  /** Attach and begin to decide; all or nothing. */
  public void start() throws Exception {
    decider.begin();
    metrics.of(decider);
    metrics.serve(decider.settings.metricsPort);
    metrics.watch();
  }

  /** The port at which the driver's Python is waited for; 0: it is not needed. */
  public int port() {
    return decider.worker == null ? 0 : decider.worker.port();
  }

  /** The secret that the driver's Python sends first. */
  public String secret() {
    return decider.worker == null ? "" : decider.worker.secret();
  }

  /** A picture of now, as JSON (`decima.spark.status`). */
  public String status() throws Exception {
    return Json.text(decider.picture());
  }

  /** Give Spark its own objects back; jobs that run go on. May be called twice. */
  public void detach() {
    decider.close();
    metrics.close();
  }
}
