package decima.spark;

import com.codahale.metrics.Counter;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.WeakHashMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.spark.SparkContext;
import org.apache.spark.scheduler.Pool;
import org.apache.spark.scheduler.SchedulableBuilder;
import org.apache.spark.scheduler.TaskSchedulerImpl;
import org.apache.spark.scheduler.TaskSet;
import org.apache.spark.scheduler.TaskSetManager;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Control of a session's task sets: wait for events, apply a plan, attach and detach.
 *
 * <p>The classes of this folder decide which task set gets the next free slot.
 *
 * <p>Nothing of Spark is copied or replaced for good: while attached, Spark's root pool has one child,
 * a `RankPool` that holds what it held, and `Builder` stands in for Spark's builder. To detach, the
 * pool gives all back, and the one field of TaskSchedulerImpl that was set gets its old value.
 */
final class Control {
  private static final long DRAIN_MS = 2000L;
  /** after this part of its hold a new task set starts within a fair share */
  static final long SHARE_PART = 5L;
  private static final String BUILDER = "schedulableBuilder";
  private static final String QUEUE = "decima";
  private static final List<TaskSetManager> NO_SETS = Collections.emptyList();
  private static final Logger LOG = LoggerFactory.getLogger("decima.spark.DecimaPlugin");
  /** contexts that are attached to, in shadow mode, too: its log has Spark's choices */
  private static final Set<SparkContext> CLAIMED =
      Collections.synchronizedSet(Collections.newSetFromMap(new WeakHashMap<SparkContext, Boolean>()));

  final SparkContext context;
  final TaskSchedulerImpl scheduler;
  final Pool root;
  final Counters counters = new Counters();
  final Events events;
  final Session session = new Session(this);
  final Admission admission = new Admission(this);
  final Caps caps;
  /** whether caps are set; a field, so that a broken `Caps` lets no task start */
  final boolean hasCaps;
  /** whether only so many jobs may run at once; a field, so that a broken `Admission` lifts that */
  volatile boolean isBounded = false;
  /** a change of what a cap's task sets hold was lost: it is counted anew before a task starts */
  volatile boolean areCapsMiscounted = false;
  final PoolCounts pools = new PoolCounts();
  final long lapseNs;
  final long holdNs;
  final boolean observeOnly;

  volatile Plan plan = Plan.NONE;
  volatile boolean attached = false;
  /** no plan comes any more, and users' caps go on to hold */
  volatile boolean hasGivenUp = false;
  /** it is detached, and all events before that have been read */
  volatile boolean isOver = false;
  /** no plan came for too long while slots stood idle: Spark's own order until one comes */
  volatile boolean lapsed = false;
  /** Spark's own order, under caps */
  volatile boolean isSparkOrder = false;
  volatile long beatNs = System.nanoTime();

  /** executors that get no more tasks: a coordinator has another use for them */
  private volatile Set<String> leaving = Collections.emptySet();

  /** by job: slots that it holds through the plugin's managers */
  final ConcurrentHashMap<String, AtomicInteger> held = new ConcurrentHashMap<>();
  /** by "stage.attempt", the task sets of the plugin's managers */
  final ConcurrentHashMap<String, Limited> watched = new ConcurrentHashMap<>();

  private final SchedulableBuilder sparkBuilder;
  private final RankPool pool;
  private final Builder builder;
  private final Watchdog watchdog;
  /** null: limits are caps, not shares of pools */
  private final Shares shares;
  private volatile Contention contention = null;

  /**
   * Nothing of Spark is touched before `attach`.
   *
   * @param lapseMs the plan lapses where it keeps slots idle and the planner is silent for so long.
   * @param holdMs a new task set waits for its first decision at most so long.
   * @param capacity events that may wait to be read.
   * @param mode exact, soft or shadow.
   * @param caps the most slots by name (`Caps`).
   * @throws IllegalStateException this Spark cannot be controlled so.
   */
  Control(
      SparkContext context,
      long lapseMs,
      long holdMs,
      int capacity,
      String mode,
      Map<String, Integer> caps)
      throws Exception {
    this.context = context;
    this.scheduler = Fields.schedulerOf(context);
    this.lapseNs = lapseMs * 1000000L;
    this.holdNs = holdMs * 1000000L;
    this.observeOnly = !mode.equals("exact");
    this.shares = mode.equals("soft") ? new Shares(this) : null;
    this.caps = new Caps(caps);
    this.hasCaps = !caps.isEmpty();
    this.events = new Events(this, capacity);
    synchronized (scheduler) {
      this.root = scheduler.rootPool();
      this.sparkBuilder = (SchedulableBuilder) Fields.get(scheduler, BUILDER);
      this.pool = new RankPool(this, root);
      this.builder =
          observeOnly || Builder.isOurs(sparkBuilder)
              ? null
              : new Builder(this, sparkBuilder, pool);
      if (!observeOnly) {
        // Its own value: whether the field can be set is known before anything has changed.
        Fields.set(scheduler, BUILDER, sparkBuilder);
      }
    }
    this.watchdog = new Watchdog(this);
  }

  /** Take the place between Spark and its pools, or leave nothing behind; safe while jobs run. */
  synchronized void attach() throws Exception {
    Object current = Fields.get(scheduler, BUILDER);
    if (current != sparkBuilder || Builder.isOurs(current) || !CLAIMED.add(context)) {
      throw new IllegalStateException("a scheduler is attached to this SparkContext already");
    }
    // Classes load here, and not while a stage waits for its first plan.
    session.report();
    beatNs = System.nanoTime();
    attached = true;
    try {
      context.listenerBus().addToQueue(events, QUEUE);
      caps.owners.dropped =
          (Counter)
              context.listenerBus().metrics().metricRegistry().getCounters().get(
                  "queue." + QUEUE + ".numDroppedEvents");
      if (!observeOnly) {
        synchronized (scheduler) {
          pool.takeOver();
          Fields.set(scheduler, BUILDER, builder);
          for (TaskSetManager running : isBounded ? session.taskSets() : NO_SETS) {
            TaskSet set = running.taskSet();
            admission.adopt(Owners.jobOf(set.properties(), set.priority()), set.priority());
          }
        }
      }
      watchdog.start();
    } catch (Throwable fault) {
      attached = false;
      CLAIMED.remove(context);
      context.listenerBus().removeListener(events);
      putBack();
      throw new IllegalStateException("attaching failed: " + fault, fault);
    }
  }

  private void putBack() throws Exception {
    if (shares != null) {
      shares.giveBack();
    }
    if (observeOnly) {
      return;
    }
    synchronized (scheduler) {
      pool.giveBack();
      Fields.set(scheduler, BUILDER, sparkBuilder);
    }
  }

  /** Give Spark back its own objects. The plugin's task sets go on without limits. */
  synchronized void detach() throws Exception {
    if (!attached) {
      return;
    }
    attached = false;
    CLAIMED.remove(context);
    putBack();
    letWaitingStart();
    if (Thread.currentThread() != watchdog) {
      watchdog.interrupt();
    }
    try {
      // Events before now are still reported.
      context.listenerBus().waitUntilEmpty(DRAIN_MS);
    } catch (Throwable late) {
      // The bus is busy, or stopped.
    }
    context.listenerBus().removeListener(events);
    isOver = true;
    events.touch();
    revive();
  }

  /**
   * No plan comes any more: Spark gets its own objects back. Caps do not depend on a policy: they go
   * on to hold, under Spark's own order.
   */
  synchronized void giveUp() throws Exception {
    if (observeOnly || caps.isEmpty()) {
      detach();
    } else if (attached && !hasGivenUp) {
      hasGivenUp = true;
      leaveToSpark(true);
      letWaitingStart();
      events.end();
    }
  }

  /** The planner was silent for so long that it is given up. */
  void abandon(long silentNs) throws Exception {
    counters.abandoned.incrementAndGet();
    LOG.warn(
        "no heartbeat of the planner for {} s: Spark's own order from now on{}",
        silentNs / 1000000000L,
        caps.isEmpty() ? "" : ", caps go on to hold");
    giveUp();
  }

  /** At most this many jobs run at once, until Spark's own order returns after a failure. */
  void boundJobs(int maxJobs, long patienceMs) {
    admission.bound(maxJobs, patienceMs);
    isBounded = true;
  }

  /** Whether a failure has lifted the bound on jobs. */
  boolean isUnbounded() {
    return !isBounded || !attached || hasGivenUp || lapsed;
  }

  /** Admit what waits: new jobs, or all of them once the bound is lifted. */
  void letWaitingStart() {
    if (!isBounded) {
      return;
    }
    try {
      admission.look();
    } catch (Throwable fault) {
      liftBound();
    }
  }

  /** All jobs start: what counts them has failed. */
  void liftBound() {
    counters.faults.incrementAndGet();
    isBounded = false;
    revive();
  }

  /** Whether jobs that wait for a place get it in the order of submission. */
  boolean isOrderOfSubmission() {
    return isSparkOrder && order().equals("fifo");
  }

  /** Among the jobs that wait for a place the one that Spark would serve first; "": it has none. */
  String firstInSparkOrder() {
    synchronized (scheduler) {
      Limited first = pool.firstWaiting();
      return first == null ? "" : first.job;
    }
  }

  /** Spark's own order, by the name that the simulator has. */
  String order() {
    return context.getSchedulingMode().toString().equals("FAIR") ? "spark_fair" : "fifo";
  }

  /** Whether plans are still awaited. */
  boolean isServed() {
    return !isOver && !hasGivenUp;
  }

  /** A Spark job's start was read: task sets whose user was not known may start now. */
  void noteStart(int sparkJob) {
    caps.owners.noteStart(sparkJob);
    if (watched.values().stream().anyMatch(set -> !set.isSettled)) {
      revive();
    }
  }

  void apply(Plan next) throws Exception {
    // Under the lock that offer rounds hold: a round follows one plan from its first task to its last.
    synchronized (scheduler) {
      plan = next;
    }
    if (shares != null) {
      shares.apply(next);
    }
    counters.plans.incrementAndGet();
    beat();
    revive();
    noteFirstDecisions();
  }

  /** Spark's own order from now on, or plans again; caps hold either way. */
  void leaveToSpark(boolean isLeft) {
    synchronized (scheduler) {
      isSparkOrder = isLeft;
      plan = Plan.NONE; // of long ago, when plans come again
    }
    revive();
  }

  /** How long each new task set waited until a plan knew it. */
  private void noteFirstDecisions() {
    Plan now = plan;
    long nowNs = System.nanoTime();
    for (Limited set : watched.values()) {
      if (!set.isDecided && set.in(now).isKnown()) {
        set.isDecided = true;
        counters.waits.note(nowNs - set.openNs());
      }
    }
  }

  /** Heartbeat of the planner. */
  void beat() {
    beatNs = System.nanoTime();
    if (lapsed) {
      synchronized (scheduler) {
        lapsed = false;
      }
      counters.recoveries.incrementAndGet();
    }
  }

  /** Start no more tasks on these executors; those that are not named are as before. */
  void setLeaving(Set<String> executors) {
    boolean isBack = !executors.containsAll(leaving);
    leaving = executors;
    if (isBack) {
      revive();
    }
  }

  boolean isLeaving(String executor) {
    return attached && leaving.contains(executor);
  }

  /** Offer idle slots; not while the context stops: its backend may be gone, and would log that. */
  void revive() {
    if (context.isStopped()) {
      return;
    }
    try {
      scheduler.backend().reviveOffers();
    } catch (Throwable stopped) {
      // It has been stopped meanwhile: there is nothing left to offer.
    }
  }

  /** Wait until something changed, at most so long; then the state. */
  Report await(long timeoutMs) throws Exception {
    beat();
    letWaitingStart();
    events.await(timeoutMs);
    if (context.isStopped()) {
      detach();
    }
    beat();
    return session.report();
  }

  boolean isFree() {
    return !attached || lapsed || isSparkOrder;
  }

  /** Whether a task of this task set may start now. */
  boolean mayStart(Limited set) {
    if (!attached) {
      return !context.isStopped(); // while it stops nothing starts, and so nothing beyond a cap
    }
    if (set.isWaiting() && !isUnbounded()) {
      return false;
    }
    if (set.isUnlimited) {
      return true;
    }
    if (areCapsMiscounted) {
      synchronized (scheduler) {
        caps.count(watched.values());
        areCapsMiscounted = false;
      }
    }
    if (caps.room(set) == 0) {
      return false;
    }
    if (isFree()) {
      return true;
    }
    Plan now = plan;
    Plan.Entry entry = set.in(now);
    if (entry.isLeftOut) {
      return false;
    }
    if (entry.rank == Plan.UNRANKED) {
      // No plan knows it yet. It waits for its first decision, but not for long.
      boolean isNew = isNew(set, now);
      if (isNew && !needsNoDecision(set)) {
        if (!set.hasAsked) {
          set.hasAsked = true;
          events.urge();
        }
        return false;
      }
      if (!isNew && !set.isDecided && !set.expired) {
        set.expired = true;
        counters.expired.incrementAndGet();
      }
    }
    return set.held.get() < entry.limit && pools.hasRoom(now, set);
  }

  /** Whether it still waits for the first plan that knows it. */
  boolean isNew(Limited set, Plan now) {
    return !set.isDecided && !set.in(now).isKnown() && System.nanoTime() - set.openNs() < holdNs;
  }

  /**
   * Whether a new task set may start before its first decision: every waiting task has an idle slot,
   * so that there is nothing to decide; or the decision is late, and its job holds less than a fair
   * share. Short jobs do not wait for a plan that could not help them.
   */
  private boolean needsNoDecision(Limited set) {
    Contention now = contention;
    if (now == null) {
      now = new Contention();
      contention = now;
    }
    boolean isLate = System.nanoTime() - set.openNs() > holdNs / SHARE_PART;
    return !now.isCrowded || (isLate && set.held.get() < now.share);
  }

  /** An offer round begins, or time has passed: the counts may be wrong now. */
  void forgetContention() {
    contention = null;
  }

  /** Whether tasks wait for each other's slots; counted once for an offer round. */
  private final class Contention {
    /** more tasks wait than slots stand idle; each start takes one of both */
    final boolean isCrowded;
    /** slots of a job if all had as many */
    final int share;

    Contention() {
      int waiting = 0;
      Set<String> jobs = new HashSet<>();
      for (Limited set : watched.values()) {
        if (set.isWaiting()) {
          continue;
        }
        waiting += set.waiting();
        if (set.waiting() > 0 || set.runningTasks() > 0) {
          jobs.add(set.job);
        }
      }
      isCrowded = waiting > session.slots - root.runningTasks();
      share = Math.max(1, session.slots / Math.max(1, jobs.size()));
    }
  }

  /** The count of a job; under the scheduler's lock, and kept while the pools hold a set of its. */
  AtomicInteger counterOf(String job) {
    return held.computeIfAbsent(job, name -> new AtomicInteger());
  }

  int heldBy(String job) {
    AtomicInteger count = held.get(job);
    return count == null ? 0 : count.get();
  }

  void changeHeld(Limited set, int change) {
    if (change == 0) {
      return;
    }
    boolean isOverCap = caps.changeHeld(set, change);
    int now = set.held.addAndGet(change);
    pools.changeHeld(set, change);
    if (change < 0 || !attached || set.isUnlimited) {
      return;
    }
    if (isOverCap) {
      counters.overCap.incrementAndGet();
    }
    if (!isFree()) {
      Plan current = plan;
      counters.launches.incrementAndGet();
      if (isNew(set, current)) {
        counters.early.incrementAndGet();
      }
      if (now > set.in(current).limit) {
        counters.overLimit.incrementAndGet();
      }
    }
  }
}
