package decima.spark;

import decima.policy.Due;
import decima.policy.LiveJobs;
import decima.policy.Plan;
import decima.policy.Planner;
import decima.policy.Report;
import java.util.Collections;
import java.util.Map;
import java.util.function.Consumer;

/** Plans inside the JVM, one report after the other; stands back while a worker decides. */
final class Decider extends Thread {
  private static final long WAIT_MS = 200;
  /** after a report of which nothing follows: tiny jobs would bring several each */
  private static final long PAUSE_MS = 20;
  /** after so many failures in a row we let go */
  private static final int MAX_FAILURES = 5;

  final Settings settings;
  final Control control;
  /** null: order is left to Spark */
  final Planner planner;
  /** null: this thread decides alone */
  final Worker worker;
  final Latencies latencies = new Latencies();
  private final Consumer<Throwable> refuse;
  private final LiveJobs live = new LiveJobs();
  private final Due due = new Due();
  volatile Report report;
  volatile Map<String, Integer> limits = Collections.emptyMap();
  private Plan plan;
  private volatile boolean isClosed = false;

  /** @param refuse receives the reason, where we let go by ourselves. */
  Decider(
      Settings settings,
      Control control,
      Planner planner,
      Worker worker,
      Consumer<Throwable> refuse) {
    super("decima-planner");
    setDaemon(true);
    this.settings = settings;
    this.control = control;
    this.planner = planner;
    this.worker = worker;
    this.refuse = refuse;
  }

  /** Attach and begin to decide; all or nothing. */
  @Override
  public void start() {
    try {
      control.attach();
      if (worker != null) {
        worker.start(this);
      }
    } catch (Exception error) {
      close();
      throw error instanceof RuntimeException
          ? (RuntimeException) error
          : new IllegalStateException(error.getMessage(), error);
    }
    super.start();
  }

  @Override
  public void run() {
    try {
      while (!isClosed && step()) {}
    } catch (Throwable fault) {
      if (!isClosed && !control.context.isStopped()) {
        refuse.accept(fault);
      }
    } finally {
      letGo();
    }
  }

  private boolean step() throws Exception {
    Report now = new Report(Json.plain(control.await(null, WAIT_MS)));
    long began = System.nanoTime();
    report = now;
    live.update(now);
    if (!now.attached) {
      return false;
    }
    if (planner == null || (worker != null && worker.decides())) {
      return true;
    }
    if (!due.isDue(now, plan, began)) {
      if (now.sets.stream().noneMatch(one -> one.waiting() > 0)) {
        Thread.sleep(PAUSE_MS);
      }
      return true;
    }
    decide(now, began);
    if (planner.failuresInARow >= MAX_FAILURES) {
      refuse.accept(
          new IllegalStateException("the policy failed " + MAX_FAILURES + " times in a row"));
      return false;
    }
    return true;
  }

  private void decide(Report now, long began) {
    Plan made = planner.plan(live, now.idleMs, now.idleSlots);
    if (made == null) {
      return;
    }
    plan = made;
    if (made.fault != null) {
      DriverSide.LOG.warn("policy {} failed: {}", planner.policy().name(), made.fault);
    }
    apply(made.message(control.plan.number + 1));
    latencies.note(System.nanoTime() - began);
  }

  /** Put a plan in force, whoever made it. */
  @SuppressWarnings("unchecked")
  void apply(Map<String, ?> message) {
    limits = (Map<String, Integer>) message.get("limits");
    if (!settings.isShadow()) {
      control.apply(decima.spark.Plan.of(message));
    } else {
      control.counters.plans.incrementAndGet();
    }
  }

  /** The worker says that its policy cannot be used, or cannot be had at all. */
  void refuse(String reason) {
    refuse.accept(new SettingsError(reason));
  }

  /** Plan no more; users' caps go on to hold. Twice does no harm. */
  void letGo() {
    end(control::giveUp);
  }

  /** Let go of Spark; twice does no harm. */
  void close() {
    isClosed = true;
    end(control::detach);
  }

  private void end(Ending ending) {
    try {
      ending.run();
    } catch (Exception error) {
      DriverSide.LOG.debug("detach", error);
    }
    if (worker != null) {
      worker.close();
    }
  }

  private interface Ending {
    void run() throws Exception;
  }
}
