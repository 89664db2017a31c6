package decima.spark;

import java.util.HashSet;
import java.util.Iterator;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.spark.SparkContext;
import org.apache.spark.scheduler.Pool;
import org.apache.spark.scheduler.SchedulableBuilder;
import org.apache.spark.scheduler.TaskSchedulerImpl;

/**
 * What the outside calls: wait for news, apply a plan, attach and detach.
 *
 * <p>The classes of this folder decide which task set gets the next free slot. Where a session is
 * attached to from Python they are compiled in the driver by Janino, hence without lambdas and type
 * parameters; the plugin's jar holds the same ones, compiled by javac.
 *
 * <p>Nothing of Spark is copied or replaced for good: `RankPool` stands before Spark's own root pool
 * and asks it for everything, `Builder` stands before Spark's own builder. To detach, two fields of
 * TaskSchedulerImpl get back their old values.
 */
public final class Control {
  static final int NO_LIMIT = Integer.MAX_VALUE;
  static final long DRAIN_MS = 500L;
  /** after this part of its hold a new task set starts within a fair share */
  static final long SHARE_PART = 5L;
  static final String[] JOB_PROPERTIES = {
    "decima.job", "spark.sql.execution.root.id", "spark.sql.execution.id", "spark.jobGroup.id"
  };
  static final String[] TOLD_PROPERTIES = {
    "decima.job",
    "spark.sql.execution.root.id",
    "spark.sql.execution.id",
    "spark.jobGroup.id",
    "spark.job.description",
    "callSite.short"
  };

  final SparkContext context;
  final TaskSchedulerImpl scheduler;
  final Pool sparkPool;
  final SchedulableBuilder sparkBuilder;
  final Counters counters = new Counters();
  final News news;
  final long lapseNs;
  final long holdNs;
  final boolean observeOnly;

  volatile Plan plan = new Plan();
  volatile boolean attached = false;
  /** no decision came for too long while slots stood idle: Spark's own order until one comes */
  volatile boolean lapsed = false;
  volatile long beatNs = System.nanoTime();
  final Idleness idleness = new Idleness(this);

  /** by job: slots that it holds through our task set managers */
  final ConcurrentHashMap held = new ConcurrentHashMap();
  /** "stage.attempt" -> Watched, for the task sets that are ours */
  final ConcurrentHashMap watched = new ConcurrentHashMap();

  private final RankPool pool;
  private final Builder builder;
  private final Watchdog watchdog;

  public Control(SparkContext context, long lapseMs, long holdMs, int capacity, boolean observeOnly)
      throws Exception {
    this.context = context;
    this.scheduler = Fields.schedulerOf(context);
    this.lapseNs = lapseMs * 1000000L;
    this.holdNs = holdMs * 1000000L;
    this.observeOnly = observeOnly;
    synchronized (scheduler) {
      this.sparkPool = scheduler.rootPool();
      this.sparkBuilder = (SchedulableBuilder) Fields.get(scheduler, "schedulableBuilder");
      if (!observeOnly) {
        // Their own values: whether the fields can be set is known before anything has changed.
        putInPlace(sparkPool, sparkBuilder);
      }
    }
    this.news = new News(this, capacity);
    this.pool = new RankPool(this);
    this.builder = new Builder(this);
    this.watchdog = new Watchdog(this);
  }

  private void putInPlace(Pool root, SchedulableBuilder made) throws Exception {
    synchronized (scheduler) {
      Fields.set(scheduler, "rootPool", root);
      Fields.set(scheduler, "schedulableBuilder", made);
      if (scheduler.rootPool() != root) {
        throw new IllegalStateException(
            scheduler.getClass().getName() + " has a root pool that is not to be set");
      }
    }
  }

  /** Put ourselves before Spark's own pool, or leave nothing behind; safe while jobs run. */
  public synchronized void attach() throws Exception {
    if (sparkPool instanceof RankPool || scheduler.rootPool() instanceof RankPool) {
      throw new IllegalStateException("a scheduler is attached to this SparkContext already");
    }
    // Their classes load here, and not while a stage waits for its first plan.
    Json.MAPPER.readValue(Json.text(news.state()), Map.class);
    beatNs = System.nanoTime();
    attached = true;
    try {
      context.listenerBus().addToQueue(news, "decima");
      if (!observeOnly) {
        putInPlace(pool, builder);
      }
      watchdog.start();
    } catch (Throwable fault) {
      attached = false;
      context.listenerBus().removeListener(news);
      if (!observeOnly) {
        putInPlace(sparkPool, sparkBuilder);
      }
      throw new IllegalStateException("attaching failed: " + fault, fault);
    }
  }

  /** Give Spark back its own objects. Task sets that are ours go on without limits. */
  public synchronized void detach() throws Exception {
    if (!attached) {
      return;
    }
    attached = false;
    if (!observeOnly) {
      putInPlace(sparkPool, sparkBuilder);
    }
    news.touch();
    if (Thread.currentThread() != watchdog) {
      watchdog.interrupt();
    }
    try {
      // What happened before now is still told.
      context.listenerBus().waitUntilEmpty(DRAIN_MS);
    } catch (Throwable late) {
      // The bus is busy, or stopped.
    }
    context.listenerBus().removeListener(news);
    revive();
  }

  /**
   * Take a plan, as JSON: its "number", the "limits" of jobs, the stages "chosen" in their order,
   * and the "others", seen but not chosen.
   */
  public void apply(String text) throws Exception {
    Plan next = new Plan(text);
    // Under the lock that offer rounds hold: a round follows one plan from its first task to its last.
    synchronized (scheduler) {
      plan = next;
    }
    counters.plans.incrementAndGet();
    beat();
    revive();
    noteFirstDecisions();
  }

  /** How long each new task set waited until a plan knew it. */
  private void noteFirstDecisions() {
    Plan now = plan;
    long nowNs = System.nanoTime();
    for (Iterator all = watched.values().iterator(); all.hasNext(); ) {
      Watched set = (Watched) all.next();
      if (!set.isDecided && (now.rank.containsKey(set.stage) || now.seen.contains(set.stage))) {
        set.isDecided = true;
        counters.noteWait(nowNs - set.bornNs);
      }
    }
  }

  /** The agent lives. */
  void beat() {
    beatNs = System.nanoTime();
    if (lapsed) {
      synchronized (scheduler) {
        lapsed = false;
      }
      counters.recoveries.incrementAndGet();
    }
  }

  void revive() {
    try {
      scheduler.backend().reviveOffers();
    } catch (Throwable stopped) {
      // The context is being stopped: there is nothing left to offer.
    }
  }

  /** Wait until something changed, at most so long; then the state, as JSON. */
  public String await(long timeoutMs) throws Exception {
    beat();
    news.await(timeoutMs);
    if (context.isStopped()) {
      attached = false;
    }
    beat();
    return Json.text(news.state());
  }

  public String counters() throws Exception {
    return Json.text(counters.now(this));
  }

  boolean isFree() {
    return !attached || lapsed;
  }

  /** Whether a task of this task set may start now. */
  boolean mayStart(Watched set) {
    if (isFree() || set.isUnlimited) {
      return true;
    }
    Plan now = plan;
    if (!now.rank.containsKey(set.stage)) {
      if (now.seen.contains(set.stage)) {
        return false;
      }
      // No plan knows it yet. It waits for its first decision, but not for long.
      boolean isNew = isNew(set, now);
      if (isNew && !needsNoDecision(set)) {
        return false;
      }
      if (!isNew && !set.isDecided && !set.expired) {
        set.expired = true;
        counters.expired.incrementAndGet();
      }
    }
    return heldBy(set.job) < now.limitOf(set.job);
  }

  /** Whether it still waits for the first plan that knows it. */
  boolean isNew(Watched set, Plan now) {
    return !set.isDecided
        && !now.rank.containsKey(set.stage)
        && !now.seen.contains(set.stage)
        && System.nanoTime() - set.bornNs < holdNs;
  }

  /**
   * Whether a new task set may start before its first decision: every task that waits has an idle
   * slot, so that there is nothing to decide; or the decision is late, and its job holds less than a
   * fair share. Jobs that are over before a plan could help do not wait for one.
   */
  private boolean needsNoDecision(Watched set) {
    int waiting = 0;
    HashSet jobs = new HashSet();
    for (Iterator all = watched.values().iterator(); all.hasNext(); ) {
      Watched one = (Watched) all.next();
      int own = one.waiting();
      waiting += own;
      if (own > 0 || one.manager.runningTasks() > 0) {
        jobs.add(one.job);
      }
    }
    boolean isLate = System.nanoTime() - set.bornNs > holdNs / SHARE_PART;
    return waiting <= news.slots - sparkPool.runningTasks()
        || (isLate && heldBy(set.job) < Math.max(1, news.slots / Math.max(1, jobs.size())));
  }

  int heldBy(String job) {
    AtomicInteger count = (AtomicInteger) held.get(job);
    return count == null ? 0 : count.get();
  }

  void changeHeld(Watched set, int change) {
    if (change == 0) {
      return;
    }
    AtomicInteger count = (AtomicInteger) held.get(set.job);
    if (count == null) {
      held.putIfAbsent(set.job, new AtomicInteger());
      count = (AtomicInteger) held.get(set.job);
    }
    int now = count.addAndGet(change);
    Plan current = plan;
    if (change > 0 && !isFree() && !set.isUnlimited) {
      counters.launches.incrementAndGet();
      if (isNew(set, current)) {
        counters.early.incrementAndGet();
      }
      if (now > current.limitOf(set.job)) {
        counters.overLimit.incrementAndGet();
      }
    }
  }

  static String jobOf(Properties properties, int sparkJob) {
    if (properties != null) {
      for (int index = 0; index < JOB_PROPERTIES.length; index++) {
        String value = properties.getProperty(JOB_PROPERTIES[index]);
        if (value != null) {
          return (index == 0 ? "job " : index == 3 ? "group " : "sql ") + value;
        }
      }
    }
    return "spark " + sparkJob;
  }
}
