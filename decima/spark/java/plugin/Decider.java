package decima.spark;

import decima.policy.Due;
import decima.policy.LiveJobs;
import decima.policy.Planner;
import decima.policy.Policies;
import decima.policy.Policy;
import decima.policy.Priors;
import decima.policy.WarmUp;
import java.io.IOException;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;
import java.util.function.Function;
import org.apache.spark.SparkContext;

/**
 * A policy attached to a session, by the plugin (`DecimaPlugin`) or by a driver in Python
 * (`Attachment`): it makes plans, one report after the other, for as long as that goes well.
 */
final class Decider extends Thread {
  private static final int CAPACITY = 100_000;
  private static final long WAIT_MS = 200;
  /** at most, after a report of which nothing follows: tiny jobs would bring several each */
  private static final long PAUSE_MS = 20;
  /** what the thread gets to write its last lines */
  private static final long END_MS = 5_000;

  final Settings settings;
  final Control control;
  /** null: order is left to Spark */
  final Planner planner;
  /** null: the JVM needs no Python */
  final Worker worker;
  /** null: no coordinator decides on the application's executors */
  final Follower follower;
  final Counters.Latencies latencies = new Counters.Latencies();
  final Status status = new Status();
  /** null: one policy for the whole session */
  private final Judge judge;
  private final Map<?, ?> parameters;
  private final Consumer<Throwable> refuse;
  private volatile DecisionLog log;
  private final LiveJobs live = new LiveJobs();
  private Due due = new Due();
  private Plan plan;
  private volatile Map<String, Integer> limits = Collections.emptyMap();
  private volatile boolean isClosed = false;
  private volatile String endedBecause = null;
  /** its thread plans no more */
  private volatile boolean hasEnded = false;

  /**
   * Nothing of Spark is touched before `begin`.
   *
   * @param parameters of the policy, as `Policies.named` takes them, or null.
   * @param refuse receives the reason, where the decider detaches by itself.
   */
  Decider(
      SparkContext context, Settings settings, Map<?, ?> parameters, Consumer<Throwable> refuse)
      throws Exception {
    super("decima-planner");
    setDaemon(true);
    JarClasses.load();
    checkVersion(context.version());
    this.settings = settings;
    this.parameters = parameters;
    this.refuse = refuse;
    control =
        new Control(
            context, settings.lapseMs, settings.holdMs, CAPACITY, settings.mode, settings.caps);
    control.pools.areKept = settings.arePoolsKept;
    control.isSparkOrder = settings.isSparkOrder() || settings.isAuto();
    if (settings.hasMaxJobs()) {
      control.boundJobs(settings.maxJobs, settings.starveMs);
    }
    Policy absent = Policies.named(settings.standIn, null);
    planner =
        settings.isSparkOrder()
            ? null
            : new Planner(null, absent, settings.starveMs, settings.idleMs);
    worker =
        settings.needsPython()
            ? new Worker(
                settings, control, reason -> refuse(new SettingsError(reason)), this::takePriors)
            : null;
    Function<String, Policy> outside =
        name -> new OutsidePolicy(name, worker, absent, settings.decisionMs);
    judge = settings.isAuto() ? new Judge(control, planner, worker, outside) : null;
    if (judge == null && planner != null) {
      planner.switchTo(
          settings.isInside()
              ? Policies.named(settings.policy, parameters)
              : outside.apply(settings.policy));
    }
    follower = settings.coordinator == null ? null : new Follower(settings, control);
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

  /** Attach and begin to decide; all or nothing. */
  void begin() {
    try {
      if (settings.decisionLog != null) {
        LogFiles.check(settings.decisionLog);
      }
      control.attach();
      // Not before: the log may be that of a scheduler which is attached already.
      if (settings.decisionLog != null) {
        String ran = settings.isShadow() ? control.order() : settings.policy;
        log = new DecisionLog(settings, parameters, ran);
      }
      if (worker != null) {
        worker.start();
      }
      if (follower != null) {
        follower.start();
      }
    } catch (Exception error) {
      close();
      throw error instanceof RuntimeException
          ? (RuntimeException) error
          : new IllegalStateException(error.getMessage(), error);
    }
    start();
    if (settings.isInside() && !settings.isSparkOrder()) {
      // A policy of its own: what decides must not remember jobs that do not exist.
      WarmUp.inBackground(Policies.named(settings.policy, parameters));
    }
  }

  /** Earlier runs are known from now on. */
  void takePriors(Priors priors) {
    synchronized (live) {
      live.setPriors(priors);
    }
  }

  @Override
  public void run() {
    try {
      while (!isClosed && endedBecause == null && step()) {}
    } catch (Throwable fault) {
      if (!isClosed && !control.context.isStopped()) {
        refuse(fault);
      }
    } finally {
      endedBecause = whyEnded();
      hasEnded = true;
      letGo();
      endLog();
    }
  }

  private boolean step() throws Exception {
    // Twice a lapse: a wait for news is not silence.
    long waitMs = Math.min(WAIT_MS, control.lapseNs / 2_000_000L);
    Report now = control.await(waitMs);
    long began = System.nanoTime();
    take(now);
    DecisionLog lines = log;
    if (lines != null) {
      lines.jobs(live.ended);
    }
    if (follower != null) {
      follower.note(live);
    }
    if (!now.attached) {
      return false;
    }
    if (planner == null) {
      return true;
    }
    if (judge != null && !judge.look(live)) {
      // Spark's own order is in force: the next plan, when it comes, is the first one.
      plan = null;
      due = new Due();
      Thread.sleep(PAUSE_MS);
      return true;
    }
    if (!now.waitingSets.isEmpty()) {
      admit();
    }
    if (!due.isDue(now, plan, began)) {
      if (!now.hasWaitingTasks()) {
        control.events.pause(PAUSE_MS);
      }
      return true;
    }
    decide(now, began);
    if (planner.failuresInARow < settings.failures) {
      return true;
    }
    String reason = "the policy failed " + planner.failuresInARow + " times in a row";
    if (judge != null) {
      DecimaPlugin.LOG.error("{}: {}", planner.policy().name(), reason);
      judge.giveUp(reason);
      return true;
    }
    refuse(new IllegalStateException(reason));
    return false;
  }

  private void take(Report now) {
    synchronized (live) {
      live.update(now);
      status.note(now);
    }
  }

  /** Ask the policy which of the jobs that wait gets the free place. */
  private void admit() {
    String first = null;
    try {
      first = planner.first(live);
    } catch (RuntimeException fault) {
      DecimaPlugin.LOG.warn(
          "policy {} chose none of the jobs that wait: {}", planner.policy().name(), fault.toString());
    }
    control.admission.give(first == null ? "" : first);
  }

  private void decide(Report now, long began) throws Exception {
    Plan made = planner.plan(live, now.idleMs, now.idleSlots);
    if (made == null) {
      return;
    }
    plan = made;
    if (made.fault != null) {
      DecimaPlugin.LOG.warn(
          "policy {} failed ({} in a row): {}",
          planner.policy().name(), planner.failuresInARow, made.fault);
    }
    long number = control.counters.plans.get() + 1;
    long beganMs = System.currentTimeMillis();
    apply(made);
    long[] appliedMs = {beganMs, System.currentTimeMillis()};
    latencies.note(System.nanoTime() - began);
    status.notePlan(made.chosen.size());
    DecisionLog lines = log;
    if (lines != null) {
      boolean isLeft = settings.isShadow() || (judge != null && judge.isLeft());
      lines.plan(number, now, made, appliedMs, !isLeft);
    }
  }

  private void apply(Plan made) throws Exception {
    limits = made.limits;
    if (settings.isShadow()) {
      control.counters.plans.incrementAndGet();
    } else {
      control.apply(made);
    }
  }

  // --- status --------------------------------------------------------------------------------

  /**
   * What orders tasks, and why.
   *
   * @param refusal why the settings cannot be followed; or null.
   */
  SchedulingState state(String refusal) {
    String ended = whyEnded();
    if (!control.attached || control.context.isStopped()) {
      String reason = refusal == null ? ended : refusal;
      return new SchedulingState(
          SchedulingState.Kind.NOTHING, reason == null ? "it is not attached" : reason);
    }
    if (refusal != null || ended != null) {
      return left(refusal == null ? ended : refusal);
    }
    if (settings.isShadow()) {
      return left("mode shadow puts no plan in force");
    }
    if (settings.isSparkOrder()) {
      return left("policy spark leaves order to Spark");
    }
    if (hasEnded) {
      return left("the thread that plans has ended");
    }
    if (control.lapsed) {
      return left("no plan came for " + control.lapseNs / 1e9 + " s while slots stood idle");
    }
    if (judge != null && judge.isLeft()) {
      String why = asksPython() ? judge.why : worker.awayBecause();
      return left("policy auto leaves order to Spark: " + why);
    }
    String away = isReady() ? planner.standInBecause : worker.awayBecause();
    if (away != null) {
      return new SchedulingState(
          SchedulingState.Kind.STAND_IN, planner.standIn() + " decides: " + away);
    }
    String chosen = judge == null ? "" : ", chosen " + judge.chosen;
    return new SchedulingState(SchedulingState.Kind.POLICY, settings + chosen);
  }

  /** Spark's own order is in force. */
  private SchedulingState left(String reason) {
    boolean areCapsHeld = control.hasCaps && !control.observeOnly;
    String held = areCapsHeld ? settings.caps + ", " : "";
    held += control.isUnbounded() ? "" : settings.boundOnJobs() + ", ";
    return !held.isEmpty()
        ? new SchedulingState(SchedulingState.Kind.CAPS_ONLY, held + reason)
        : new SchedulingState(SchedulingState.Kind.NOTHING, reason);
  }

  /** A picture of now; the names are those of `decima.spark.status`. */
  Map<String, Object> picture() {
    Map<String, Object> out = new LinkedHashMap<>();
    out.put("mode", settings.mode);
    out.put("policy", settings.policy);
    out.put("choice", judge == null ? null : judge.choice());
    SchedulingState state = state(null);
    out.put("state", state.kind.words);
    out.put("reason", state.reason);
    out.put("is_attached", isAttached());
    out.put("ended_because", whyEnded());
    out.put("is_ready", isReady());
    out.put("plans", control.counters.plans.get());
    out.put("fallbacks", planner == null ? 0 : planner.fallbacks());
    out.put("last_fault", planner == null ? null : planner.lastFault);
    out.put("starved", planner == null ? 0 : planner.starved);
    out.put("plan_ms_median", 1_000.0 * latencies.quantile(0.5));
    out.put("plan_ms_p90", 1_000.0 * latencies.quantile(0.9));
    synchronized (live) {
      out.put("prior_hits", live.priorHits());
      out.put("prior_misses", live.priorMisses());
      status.fill(out, live, limits);
    }
    out.put("jvm", control.counters.now(control));
    return out;
  }

  /** Whether the policy has loaded; another decides until then. */
  boolean isReady() {
    return settings.isInside() || settings.isAuto() || asksPython();
  }

  /** Whether Python answers. */
  boolean asksPython() {
    return worker != null && worker.link() != null;
  }

  /** Whether a decision log is written. */
  boolean isLogged() {
    DecisionLog lines = log;
    return lines != null && lines.isOpen();
  }

  Map<String, Integer> limits() {
    return limits;
  }

  // --- ending --------------------------------------------------------------------------------

  /** Detach for this reason. */
  void refuse(Throwable reason) {
    endedBecause = reason.getMessage() == null ? reason.toString() : reason.getMessage();
    refuse.accept(reason);
  }

  /** Whether it decides; not of a stopped context, even before the thread has seen its stop. */
  boolean isAttached() {
    return control.attached && whyEnded() == null;
  }

  /** Why the control is not attached any more; null while it is, or after `close`. */
  private String whyEnded() {
    if (isClosed || endedBecause != null) {
      return endedBecause;
    }
    if (control.context.isStopped()) {
      return "the SparkContext was stopped";
    }
    boolean isAbandoned = control.counters.abandoned.get() > 0;
    return isAbandoned
        ? "the JVM detached by itself after too long without a heartbeat"
        : null;
  }

  /** Stop planning; users' caps stay in force. May be called twice. */
  void letGo() {
    end(false);
  }

  /** Detach from Spark. May be called twice. */
  void close() {
    endedBecause = whyEnded(); // what ended before it was closed keeps its reason
    isClosed = true;
    end(true);
    try {
      if (Thread.currentThread() != this && isAlive()) {
        join(END_MS);
      }
    } catch (InterruptedException now) {
      Thread.currentThread().interrupt();
    }
    endLog();
  }

  /** Write the last jobs, and those that run on. */
  private synchronized void endLog() {
    if (log == null) {
      return;
    }
    try {
      take(control.await(0));
    } catch (Exception error) {
      DecimaPlugin.LOG.debug("the last report", error); // Spark is gone
    }
    try {
      log.jobs(live.ended);
      log.jobs(live.unreported());
    } catch (IOException error) {
      DecimaPlugin.LOG.debug("the last lines of the log", error);
    }
    log.close();
    log = null;
  }

  private void end(boolean isForAll) {
    try {
      if (isForAll) {
        control.detach();
      } else {
        control.giveUp();
      }
    } catch (Throwable error) {
      DecimaPlugin.LOG.warn("letting go of order: {}", error.toString());
    }
    if (worker != null) {
      worker.close();
    }
    if (follower != null) {
      follower.close();
    }
  }
}
