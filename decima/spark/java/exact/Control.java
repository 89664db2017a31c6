package decima.spark;

import com.codahale.metrics.Counter;
import java.util.Collections;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import java.util.WeakHashMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.spark.SparkContext;
import org.apache.spark.scheduler.Pool;
import org.apache.spark.scheduler.SchedulableBuilder;
import org.apache.spark.scheduler.TaskSchedulerImpl;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * What the outside calls: wait for events, apply a plan, attach and detach.
 *
 * <p>The classes of this folder decide which task set gets the next free slot.
 *
 * <p>Nothing of Spark is copied or replaced for good: while attached, Spark's root pool has one child,
 * a `RankPool` that holds what it held, and `Builder` stands in for Spark's builder. To detach, the
 * pool gives all back, and the one field of TaskSchedulerImpl that was set gets its old value.
 */
final class Control {
  static final int NO_LIMIT = Integer.MAX_VALUE;
  private static final long DRAIN_MS = 2000L;
  /** after this part of its hold a new task set starts within a fair share */
  static final long SHARE_PART = 5L;
  private static final String BUILDER = "schedulableBuilder";
  private static final String QUEUE = "decima";
  private static final Logger LOG = LoggerFactory.getLogger("decima.spark.DecimaPlugin");
  /** contexts that are attached to, if only to watch: the log of one who watches has Spark's choices */
  private static final Set<SparkContext> CLAIMED =
      Collections.synchronizedSet(Collections.newSetFromMap(new WeakHashMap<SparkContext, Boolean>()));

  final SparkContext context;
  final TaskSchedulerImpl scheduler;
  final Pool root;
  final Counters counters = new Counters();
  final Reader reader;
  final SessionEvents events;
  final Session session = new Session(this);
  final Caps caps;
  /** whether users have set caps; a field, as what cannot be asked may not let tasks start */
  final boolean hasCaps;
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
  /** nobody is attached any more, and all that happened before has been read */
  volatile boolean isOver = false;
  /** no decision came for too long while slots stood idle: Spark's own order until one comes */
  volatile boolean lapsed = false;
  /** nobody decides: Spark's own order, under users' caps */
  volatile boolean isSparkOrder = false;
  volatile long beatNs = System.nanoTime();
  final Idleness idleness = new Idleness(this);

  /** executors that get no more tasks: a coordinator has another use for them */
  private volatile Set<String> leaving = Collections.emptySet();

  /** by job: slots that it holds through our task set managers */
  final ConcurrentHashMap held = new ConcurrentHashMap();
  /** "stage.attempt" -> Watched, for the task sets that are ours */
  final ConcurrentHashMap watched = new ConcurrentHashMap();

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
   * @param lapseMs the plan lapses where it keeps slots idle and nobody is heard for so long.
   * @param holdMs a new task set waits for its first decision at most so long.
   * @param capacity events that may wait to be read.
   * @param mode exact, soft or shadow.
   * @param caps of users (`Caps`).
   * @throws IllegalStateException this Spark cannot be controlled so.
   */
  Control(SparkContext context, long lapseMs, long holdMs, int capacity, String mode, Map caps)
      throws Exception {
    this.context = context;
    this.scheduler = Fields.schedulerOf(context);
    this.lapseNs = lapseMs * 1000000L;
    this.holdNs = holdMs * 1000000L;
    this.observeOnly = !mode.equals("exact");
    this.shares = mode.equals("soft") ? new Shares(this) : null;
    this.caps = new Caps(caps);
    this.hasCaps = !caps.isEmpty();
    this.reader = new Reader(capacity);
    this.events = new SessionEvents(this, reader);
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

  /** Put ourselves between Spark and its pools, or leave nothing behind; safe while jobs run. */
  synchronized void attach() throws Exception {
    Object current = Fields.get(scheduler, BUILDER);
    if (current != sparkBuilder || Builder.isOurs(current) || !CLAIMED.add(context)) {
      throw new IllegalStateException("a scheduler is attached to this SparkContext already");
    }
    // Their classes load here, and not while a stage waits for its first plan.
    Json.MAPPER.readValue(Json.text(session.report(reader)), Map.class);
    beatNs = System.nanoTime();
    attached = true;
    try {
      context.listenerBus().addToQueue(events, QUEUE);
      caps.users.dropped =
          (Counter)
              context.listenerBus().metrics().metricRegistry().getCounters().get(
                  "queue." + QUEUE + ".numDroppedEvents");
      if (!observeOnly) {
        putInPlace();
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

  private void putInPlace() throws Exception {
    synchronized (scheduler) {
      pool.takeOver();
      Fields.set(scheduler, BUILDER, builder);
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

  /** Give Spark back its own objects. Task sets that are ours go on without limits. */
  synchronized void detach() throws Exception {
    if (!attached) {
      return;
    }
    attached = false;
    CLAIMED.remove(context);
    putBack();
    if (Thread.currentThread() != watchdog) {
      watchdog.interrupt();
    }
    try {
      // What happened before now is still reported.
      context.listenerBus().waitUntilEmpty(DRAIN_MS);
    } catch (Throwable late) {
      // The bus is busy, or stopped.
    }
    context.listenerBus().removeListener(events);
    isOver = true;
    reader.touch();
    revive();
  }

  /**
   * No plan comes any more: Spark gets its own objects back. Where users have set caps, these do not
   * depend on a policy: they go on to hold, under Spark's own order.
   */
  synchronized void giveUp() throws Exception {
    if (observeOnly || caps.isEmpty()) {
      detach();
    } else if (attached && !hasGivenUp) {
      hasGivenUp = true;
      leaveToSpark(true);
      events.end();
    }
  }

  /** Nobody who plans was heard for so long that nobody will be. */
  void abandon(long silentNs) throws Exception {
    counters.abandoned.incrementAndGet();
    LOG.warn(
        "no sign of life for {} s from what plans: Spark's own order from now on{}",
        silentNs / 1000000000L,
        caps.isEmpty() ? "" : ", caps go on to hold");
    giveUp();
  }

  /** Spark's own order, by the name that the simulator has. */
  String order() {
    return context.getSchedulingMode().toString().equals("FAIR") ? "spark_fair" : "fifo";
  }

  /** Whether plans are asked for. */
  boolean isServed() {
    return !isOver && !hasGivenUp;
  }

  /** A Spark job's start was read: task sets whose user was not known may start now. */
  void noteStart(int sparkJob) {
    caps.users.noteStart(sparkJob);
    for (Iterator all = watched.values().iterator(); all.hasNext(); ) {
      if (!((Watched) all.next()).isSettled) {
        revive();
        return;
      }
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
    for (Iterator all = watched.values().iterator(); all.hasNext(); ) {
      Watched set = (Watched) all.next();
      if (!set.isDecided && set.in(now).isKnown()) {
        set.isDecided = true;
        counters.waits.note(nowNs - set.bornNs);
      }
    }
  }

  /** Whoever decides lives. */
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

  /** Offer idle slots; not while the context stops: its backend may be gone, and would say so. */
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
  LinkedHashMap await(long timeoutMs) throws Exception {
    beat();
    reader.await(timeoutMs, this);
    if (context.isStopped()) {
      detach();
    }
    beat();
    return session.report(reader);
  }

  boolean isFree() {
    return !attached || lapsed || isSparkOrder;
  }

  /** Whether a task of this task set may start now. */
  boolean mayStart(Watched set) {
    if (!attached) {
      return !context.isStopped(); // while it stops nothing starts, and so nothing beyond a cap
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
    PlanEntry entry = set.in(now);
    if (entry.isLeftOut) {
      return false;
    }
    if (entry.rank == PlanEntry.UNRANKED) {
      // No plan knows it yet. It waits for its first decision, but not for long.
      boolean isNew = isNew(set, now);
      if (isNew && !needsNoDecision(set)) {
        if (!set.hasAsked) {
          set.hasAsked = true;
          reader.urge();
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
  boolean isNew(Watched set, Plan now) {
    return !set.isDecided && !set.in(now).isKnown() && System.nanoTime() - set.bornNs < holdNs;
  }

  /**
   * Whether a new task set may start before its first decision: every task that waits has an idle
   * slot, so that there is nothing to decide; or the decision is late, and its job holds less than a
   * fair share. Jobs that are over before a plan could help do not wait for one.
   */
  private boolean needsNoDecision(Watched set) {
    Contention now = contention;
    if (now == null) {
      now = new Contention(this);
      contention = now;
    }
    boolean isLate = System.nanoTime() - set.bornNs > holdNs / SHARE_PART;
    return !now.isCrowded || (isLate && set.held.get() < now.share);
  }

  /** An offer round begins, or time has passed: what was counted may be wrong now. */
  void forgetContention() {
    contention = null;
  }

  /** The count of a job; under the scheduler's lock, and kept while the pools hold a set of its. */
  AtomicInteger counterOf(String job) {
    held.putIfAbsent(job, new AtomicInteger());
    return (AtomicInteger) held.get(job);
  }

  int heldBy(String job) {
    AtomicInteger count = (AtomicInteger) held.get(job);
    return count == null ? 0 : count.get();
  }

  void changeHeld(Watched set, int change) {
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
