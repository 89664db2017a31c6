// Decides which task set gets the next free slot. Compiled in the driver by Janino when the
// scheduler attaches (hence no lambdas and no generics), against Spark 3.5 to 4.x unchanged.
//
// Nothing of Spark is copied or replaced for good: `RankPool` stands before Spark's own root pool and
// asks it for everything, `Builder` stands before Spark's own builder. To detach, two fields of
// TaskSchedulerImpl get back their old values.
package decima.spark;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.spark.SparkContext;
import org.apache.spark.scheduler.DirectTaskResult;
import org.apache.spark.scheduler.Pool;
import org.apache.spark.scheduler.Schedulable;
import org.apache.spark.scheduler.SchedulableBuilder;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerJobEnd;
import org.apache.spark.scheduler.SparkListenerJobStart;
import org.apache.spark.scheduler.SparkListenerStageCompleted;
import org.apache.spark.scheduler.SparkListenerTaskEnd;
import org.apache.spark.scheduler.StageInfo;
import org.apache.spark.scheduler.TaskInfo;
import org.apache.spark.scheduler.TaskSchedulerImpl;
import org.apache.spark.scheduler.TaskSet;
import org.apache.spark.scheduler.TaskSetManager;
import org.apache.spark.storage.RDDInfo;
import org.apache.spark.util.Clock;
import scala.Enumeration;
import scala.Option;
import scala.collection.mutable.ArrayBuffer;

/** What the outside calls: wait for news, apply a plan, attach and detach. */
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

/** Order and limits, as decided; it never changes. */
final class Plan {
  final long number;
  final HashMap limit = new HashMap();
  final HashMap rank = new HashMap();
  final HashSet seen = new HashSet();

  Plan() {
    number = 0;
  }

  Plan(String text) throws Exception {
    Map told = (Map) Json.MAPPER.readValue(text, Map.class);
    number = ((Number) told.get("number")).longValue();
    limit.putAll((Map) told.get("limits"));
    List chosen = (List) told.get("chosen");
    for (int index = 0; index < chosen.size(); index++) {
      rank.put(chosen.get(index), Integer.valueOf(index));
    }
    seen.addAll((List) told.get("others"));
  }

  int limitOf(String job) {
    Integer found = (Integer) limit.get(job);
    return found == null ? Control.NO_LIMIT : found.intValue();
  }
}

/** A task set of ours: what never changes of it, and whether its wait for a decision ended. */
final class Watched {
  final TaskSetManager manager;
  final Integer stage;
  final int attempt;
  final String job;
  /** needs all its slots at once, or slots of another kind than those that plans give away */
  final boolean isUnlimited;
  final long bornNs = System.nanoTime();
  volatile boolean expired = false;
  volatile boolean ranDry = false;
  volatile boolean isDecided = false;

  Watched(TaskSetManager manager, String job) {
    this.manager = manager;
    this.stage = Integer.valueOf(manager.taskSet().stageId());
    this.attempt = manager.taskSet().stageAttemptId();
    this.job = job;
    this.isUnlimited = manager.isBarrier() || isPipelined() || !isOfDefaultProfile(manager);
  }

  static boolean isOfDefaultProfile(TaskSetManager manager) {
    return manager.taskSet().resourceProfileId() == 0;
  }

  /** Spark 4.3 may run a stage and the one that reads its output at the same time. */
  private boolean isPipelined() {
    try {
      Object answer =
          TaskSet.class.getMethod("isPipelined", new Class[0]).invoke(manager.taskSet(), new Object[0]);
      return Boolean.TRUE.equals(answer);
    } catch (NoSuchMethodException older) {
      return false;
    } catch (Exception unknown) {
      return true;
    }
  }

  String key() {
    return stage + "." + attempt;
  }

  /** Whether its wait for a decision is over though no plan knows it. */
  boolean isFreeOf(Plan plan) {
    return !plan.seen.contains(stage) && (isDecided || expired);
  }

  int waiting() {
    return waiting(manager);
  }

  /** Tasks that no slot runs and that have not succeeded; a zombie starts none. */
  static int waiting(TaskSetManager manager) {
    return manager.isZombie() ? 0 : manager.numTasks() - manager.tasksSuccessful() - manager.runningTasks();
  }
}

/** Spark's root pool, with the task sets in the order of the plan. */
final class RankPool extends Pool {
  private final Control control;

  RankPool(Control control) {
    super(
        control.sparkPool.poolName(),
        control.sparkPool.schedulingMode(),
        control.sparkPool.minShare(),
        control.sparkPool.weight());
    this.control = control;
  }

  public ArrayBuffer getSortedTaskSetQueue() {
    ArrayBuffer sets = control.sparkPool.getSortedTaskSetQueue();
    if (control.isFree()) {
      return sets;
    }
    long began = System.nanoTime();
    try {
      sort(sets);
    } catch (Throwable fault) {
      control.counters.faults.incrementAndGet();
      return control.sparkPool.getSortedTaskSetQueue();
    } finally {
      control.counters.rounds.incrementAndGet();
      control.counters.roundNs.addAndGet(System.nanoTime() - began);
    }
    return sets;
  }

  private void sort(ArrayBuffer sets) {
    final Plan plan = control.plan;
    ArrayList found = new ArrayList();
    for (int index = 0; index < sets.size(); index++) {
      TaskSetManager manager = (TaskSetManager) sets.apply(index);
      Watched own = manager instanceof Limited ? ((Limited) manager).watched : null;
      Integer rank = (Integer) plan.rank.get(Integer.valueOf(manager.taskSet().stageId()));
      if (own == null || control.mayStart(own)) {
        // A new one within its share comes first, as it would under FAIR, until a plan knows it.
        int place = own != null && control.isNew(own, plan) ? -1 : Integer.MAX_VALUE;
        found.add(new Ranked(manager, rank == null ? place : rank.intValue(), index));
      }
    }
    java.util.Collections.sort(found);
    for (int index = 0; index < found.size(); index++) {
      sets.update(index, ((Ranked) found.get(index)).manager);
    }
    sets.remove(found.size(), sets.size() - found.size());
  }

  // Who reads logs looks for Spark's names.
  public String logName() {
    return Pool.class.getName();
  }

  // Everything else is Spark's own pool.
  public ConcurrentLinkedQueue schedulableQueue() {
    return control == null ? super.schedulableQueue() : control.sparkPool.schedulableQueue();
  }

  public ConcurrentHashMap schedulableNameToSchedulable() {
    return control == null
        ? super.schedulableNameToSchedulable()
        : control.sparkPool.schedulableNameToSchedulable();
  }

  public int runningTasks() {
    return control == null ? 0 : control.sparkPool.runningTasks();
  }

  public void addSchedulable(Schedulable one) {
    control.sparkPool.addSchedulable(one);
  }

  public void removeSchedulable(Schedulable one) {
    control.sparkPool.removeSchedulable(one);
  }
}

final class Ranked implements Comparable {
  final TaskSetManager manager;
  private final int rank;
  private final int place;

  Ranked(TaskSetManager manager, int rank, int place) {
    this.manager = manager;
    this.rank = rank;
    this.place = place;
  }

  public int compareTo(Object other) {
    Ranked that = (Ranked) other;
    return rank != that.rank
        ? (rank < that.rank ? -1 : 1)
        : (place < that.place ? -1 : place > that.place ? 1 : 0);
  }
}

/** A task set that starts no task beyond the limit of its job. */
final class Limited extends TaskSetManager {
  private final Control control;
  final Watched watched;

  Limited(Control control, TaskSetManager original, Option health, Clock clock, String job) {
    super(
        control.scheduler, original.taskSet(), original.maxTaskFailures(), health, clock);
    this.control = control;
    this.watched = new Watched(this, job);
  }

  // Who reads logs looks for Spark's names.
  public String logName() {
    return TaskSetManager.class.getName();
  }

  // Overridden here and not in resourceOffer, whose signature differs between versions of Spark.
  public Option dequeueTaskHelper(
      String executor, String host, Enumeration.Value locality, boolean speculative) {
    if (watched != null && isRefused()) {
      return Option.empty();
    }
    return super.dequeueTaskHelper(executor, host, locality, speculative);
  }

  private boolean isRefused() {
    try {
      if (control.mayStart(watched)) {
        return false;
      }
      control.counters.refused.incrementAndGet();
      return true;
    } catch (Throwable fault) {
      control.counters.faults.incrementAndGet();
      return false;
    }
  }

  public void addRunningTask(long task) {
    int before = runningTasks();
    super.addRunningTask(task);
    try {
      control.changeHeld(watched, runningTasks() - before);
      if (!watched.ranDry && watched.waiting() <= 0) {
        watched.ranDry = true;
        control.news.touch();
      }
    } catch (Throwable fault) {
      control.counters.faults.incrementAndGet();
    }
  }

  public void removeRunningTask(long task) {
    int before = runningTasks();
    super.removeRunningTask(task);
    try {
      control.changeHeld(watched, runningTasks() - before);
      if (watched.waiting() > 1) {
        watched.ranDry = false; // more than the task that has ended: others are to start again
      }
    } catch (Throwable fault) {
      control.counters.faults.incrementAndGet();
    }
  }

  // Between the end of a task and this its slot is free, and it counts as waiting.
  public void handleSuccessfulTask(long task, DirectTaskResult result) {
    super.handleSuccessfulTask(task, result);
    if (watched.waiting() <= 0) {
      // The plan has no use for the slot: it was not on offer when the plan was made.
      control.news.touch();
    }
  }
}

/** Spark's builder, which gets our task set managers instead of its own. */
final class Builder implements SchedulableBuilder {
  private final Control control;

  Builder(Control control) {
    this.control = control;
  }

  public Pool rootPool() {
    return control.sparkBuilder.rootPool();
  }

  public void buildPools() {
    control.sparkBuilder.buildPools();
  }

  /** Called inside submitTasks, which holds the scheduler's lock. */
  public void addTaskSetManager(Schedulable manager, Properties properties) {
    Schedulable ours = manager;
    try {
      ours = limited((TaskSetManager) manager, properties);
    } catch (Throwable fault) {
      control.counters.faults.incrementAndGet();
    }
    control.sparkBuilder.addTaskSetManager(ours, properties);
    control.news.touch();
  }

  private TaskSetManager limited(TaskSetManager original, Properties properties) throws Exception {
    if (original.getClass() != TaskSetManager.class) {
      return original; // a scheduler that makes its own: what it changed must stay
    }
    TaskSet set = original.taskSet();
    Option health = (Option) Fields.get(control.scheduler, "healthTrackerOpt");
    Clock clock = (Clock) Fields.get(control.scheduler, "clock");
    String job = Control.jobOf(properties, set.priority());
    Limited ours = new Limited(control, original, health, clock, job);
    // From here on Spark must find ours wherever it looks for the original.
    scala.collection.mutable.HashMap byStage =
        (scala.collection.mutable.HashMap)
            Fields.get(control.scheduler, "taskSetsByStageIdAndAttempt");
    scala.collection.mutable.HashMap byAttempt =
        (scala.collection.mutable.HashMap) byStage.apply(Integer.valueOf(set.stageId()));
    byAttempt.put(Integer.valueOf(set.stageAttemptId()), ours);
    control.watched.put(ours.watched.key(), ours.watched);
    return ours;
  }
}

/** Events of Spark and changes of task sets, for `Control.await`. */
final class News extends SparkListener {
  private final Control control;
  private final LinkedBlockingQueue events;
  private final AtomicLong dropped = new AtomicLong();
  /** by stage: successful tasks, their milliseconds, first launch, last finish, in this report */
  private final HashMap measured = new HashMap();
  private boolean isDirty = true;
  /** tasks that can run at once */
  volatile int slots = 0;
  private int knownSlots = 0;

  News(Control control, int capacity) {
    this.control = control;
    this.events = new LinkedBlockingQueue(capacity);
  }

  synchronized void touch() {
    isDirty = true;
    notifyAll();
  }

  synchronized void await(long timeoutMs) throws InterruptedException {
    long endNs = System.nanoTime() + timeoutMs * 1000000L;
    while (!isDirty && control.attached) {
      long leftMs = (endNs - System.nanoTime()) / 1000000L;
      if (leftMs <= 0) {
        break;
      }
      wait(leftMs);
    }
    isDirty = false;
  }

  private void add(Object[] event) {
    if (!events.offer(Arrays.asList(event))) {
      dropped.incrementAndGet();
    }
  }

  private void fault() {
    control.counters.faults.incrementAndGet();
  }

  // Only what is needed of an event, since a reply of more than 8 KB takes two packets, of which
  // the second waits 40 ms for the first to be acknowledged.

  public void onJobStart(SparkListenerJobStart event) {
    try {
      ArrayList stages = new ArrayList();
      for (int index = 0; index < event.stageInfos().size(); index++) {
        stages.add(told((StageInfo) event.stageInfos().apply(index)));
      }
      LinkedHashMap properties = new LinkedHashMap();
      for (int index = 0; index < Control.TOLD_PROPERTIES.length; index++) {
        String key = Control.TOLD_PROPERTIES[index];
        String value = event.properties() == null ? null : event.properties().getProperty(key);
        if (value != null) {
          properties.put(key, value);
        }
      }
      add(new Object[] {"J", event.jobId(), event.time(), stages, properties});
    } catch (Throwable fault) {
      fault();
    }
    touch();
  }

  private static List told(StageInfo stage) {
    ArrayList parents = new ArrayList();
    for (int index = 0; index < stage.parentIds().size(); index++) {
      parents.add(stage.parentIds().apply(index));
    }
    ArrayList rdds = new ArrayList();
    for (int index = 0; index < stage.rddInfos().size(); index++) {
      rdds.add(((RDDInfo) stage.rddInfos().apply(index)).id());
    }
    return Arrays.asList(new Object[] {stage.stageId(), stage.numTasks(), parents, rdds});
  }

  public void onJobEnd(SparkListenerJobEnd event) {
    add(new Object[] {"E", event.jobId(), event.time()});
    touch();
  }

  public void onStageCompleted(SparkListenerStageCompleted event) {
    StageInfo stage = event.stageInfo();
    boolean succeeded = !stage.failureReason().isDefined();
    add(new Object[] {"S", stage.stageId(), stage.attemptNumber(), succeeded});
    touch();
  }

  /** Durations are summed up by stage: there may be thousands of tasks between two reports. */
  public void onTaskEnd(SparkListenerTaskEnd event) {
    TaskInfo task = event.taskInfo();
    if (task == null || !task.successful()) {
      return;
    }
    Integer stage = Integer.valueOf(event.stageId());
    synchronized (measured) {
      long[] sums = (long[]) measured.get(stage);
      if (sums == null) {
        sums = new long[] {0L, 0L, Long.MAX_VALUE, 0L};
        measured.put(stage, sums);
      }
      sums[0] += 1;
      sums[1] += Math.max(0L, task.finishTime() - task.launchTime());
      sums[2] = Math.min(sums[2], task.launchTime());
      sums[3] = Math.max(sums[3], task.finishTime());
    }
  }

  private List takeMeasured() {
    ArrayList found = new ArrayList();
    synchronized (measured) {
      for (Iterator all = measured.entrySet().iterator(); all.hasNext(); ) {
        Map.Entry entry = (Map.Entry) all.next();
        long[] sums = (long[]) entry.getValue();
        found.add(
            Arrays.asList(new Object[] {entry.getKey(), sums[0], sums[1], sums[2], sums[3]}));
      }
      measured.clear();
    }
    return found;
  }

  /** One consistent picture of all task sets, and the events since the last one. */
  Map state() {
    LinkedHashMap out = new LinkedHashMap();
    out.put("time_ms", System.currentTimeMillis());
    out.put("plan", control.plan.number);
    out.put("lapsed", control.lapsed);
    out.put("attached", control.attached);
    out.put("dropped", dropped.get());
    ArrayList told = new ArrayList();
    synchronized (control.scheduler) {
      countSlots();
      List sets = taskSets();
      forgetOthers(sets);
      for (int index = 0; index < sets.size(); index++) {
        TaskSetManager manager = (TaskSetManager) sets.get(index);
        if (Watched.isOfDefaultProfile(manager)) {
          told.add(told(manager));
        }
      }
    }
    out.put("sets", told);
    out.put("slots", slots);
    out.put("idle_ms", control.idleness.ms());
    out.put("idle_slots", control.idleness.take());
    ArrayList news = new ArrayList();
    events.drainTo(news);
    out.put("events", news);
    out.put("measured", takeMeasured());
    return out;
  }

  void countSlots() {
    slots =
        control.context.maxNumConcurrentTasks(
            control.context.resourceProfileManager().defaultResourceProfile());
  }

  /** Those of Spark's pools, in no order; read without a lock. */
  List taskSets() {
    ArrayList found = new ArrayList();
    collect(control.sparkPool, found);
    return found;
  }

  /** All task sets; the sorted queue of a pool leaves out those with no task to start. */
  private static void collect(Pool pool, ArrayList found) {
    for (Iterator all = pool.schedulableQueue().iterator(); all.hasNext(); ) {
      Object one = all.next();
      if (one instanceof Pool) {
        collect((Pool) one, found);
      } else if (one instanceof TaskSetManager) {
        found.add(one);
      }
    }
  }

  /** Keep nothing of task sets that Spark has let go of; tell the others of new executors. */
  private void forgetOthers(List sets) {
    HashSet keys = new HashSet();
    HashSet jobs = new HashSet();
    for (int index = 0; index < sets.size(); index++) {
      if (sets.get(index) instanceof Limited) {
        Limited own = (Limited) sets.get(index);
        keys.add(own.watched.key());
        jobs.add(own.watched.job);
        if (slots > knownSlots) {
          own.executorAdded(); // an offer round tells only those that `RankPool` lets through
        }
      }
    }
    knownSlots = slots;
    control.watched.keySet().retainAll(keys);
    control.held.keySet().retainAll(jobs);
  }

  private static List told(TaskSetManager manager) {
    TaskSet set = manager.taskSet();
    String job =
        manager instanceof Limited
            ? ((Limited) manager).watched.job
            : Control.jobOf(set.properties(), set.priority());
    return Arrays.asList(
        new Object[] {
          set.stageId(),
          set.stageAttemptId(),
          job,
          manager.numTasks(),
          manager.tasksSuccessful(),
          manager.runningTasks(),
          manager.isZombie()
        });
  }
}

/**
 * Slots that stand idle beside tasks that the plan, and nothing else, keeps from starting: its
 * limits, or that it did not choose their stage. Tasks that may start and do not are Spark's affair
 * (locality, excluded executors, barriers), and a new stage's wait for its first decision is short.
 */
final class Idleness {
  private final Control control;
  private long sinceNs = 0;
  /** slots that stand idle so; 0: none does */
  private int wasted = 0;
  /** the least of it since it was last told: a slot that a task has just left is no waste */
  private int least = 0;
  /** slots that no task runs on, whatever the reason */
  private int idle = 0;

  Idleness(Control control) {
    this.control = control;
  }

  /** For how long slots have stood idle, as often as it was looked at. */
  synchronized long ms() {
    return wasted == 0 ? 0L : (System.nanoTime() - sinceNs) / 1000000L;
  }

  /** How many have done so all the time since this was last asked. */
  synchronized int take() {
    int told = least;
    least = wasted;
    return told;
  }

  synchronized int idle() {
    return idle;
  }

  synchronized void look() {
    int counted = count();
    int now = control.isFree() || control.observeOnly ? 0 : counted;
    if (wasted == 0) {
      sinceNs = System.nanoTime();
      least = now;
    }
    least = Math.min(least, now);
    wasted = now;
  }

  private int count() {
    if (control.watched.isEmpty()) {
      idle = 0;
      return 0;
    }
    Plan plan = control.plan;
    idle = control.news.slots;
    int usable = 0;
    int refused = 0;
    HashMap limited = new HashMap();
    List sets = control.news.taskSets();
    for (int index = 0; index < sets.size(); index++) {
      TaskSetManager manager = (TaskSetManager) sets.get(index);
      if (!Watched.isOfDefaultProfile(manager)) {
        continue;
      }
      idle -= manager.runningTasks();
      Watched own = manager instanceof Limited ? ((Limited) manager).watched : null;
      int waiting = Math.max(0, Watched.waiting(manager));
      if (own == null || own.isUnlimited) {
        usable += waiting;
      } else if (plan.rank.containsKey(own.stage) || own.isFreeOf(plan)) {
        Integer before = (Integer) limited.get(own.job);
        limited.put(own.job, (before == null ? 0 : before.intValue()) + waiting);
      } else if (plan.seen.contains(own.stage)) {
        refused += waiting;
      }
    }
    for (Iterator jobs = limited.entrySet().iterator(); jobs.hasNext(); ) {
      Map.Entry entry = (Map.Entry) jobs.next();
      String job = (String) entry.getKey();
      int waiting = ((Integer) entry.getValue()).intValue();
      int allowed = Math.max(0, plan.limitOf(job) - control.heldBy(job));
      usable += Math.min(waiting, allowed);
      refused += Math.max(0, waiting - allowed);
    }
    return Math.max(0, Math.min(idle - usable, refused));
  }
}

/** The dead man's switch, and the end of a new task set's wait for its first decision. */
final class Watchdog extends Thread {
  private static final long TICK_MS = 25;
  /** after so many times `lapseNs` without a sign of life nobody will come back */
  private static final long ABANDONED = 30;
  private final Control control;

  Watchdog(Control control) {
    super("decima-watchdog");
    setDaemon(true);
    this.control = control;
  }

  public void run() {
    while (control.attached && !control.context.isStopped()) {
      try {
        Thread.sleep(TICK_MS);
        look();
      } catch (InterruptedException stop) {
        return;
      } catch (Throwable fault) {
        control.counters.faults.incrementAndGet();
      }
    }
  }

  private void look() throws Exception {
    long now = System.nanoTime();
    if (now - control.beatNs > ABANDONED * control.lapseNs) {
      control.counters.abandoned.incrementAndGet();
      control.detach();
      return;
    }
    boolean isSilent = now - control.beatNs > control.lapseNs;
    if (isSilent) {
      control.news.countSlots(); // else done at each report
    }
    control.idleness.look();
    if (isSilent && !control.lapsed && control.idleness.ms() > 0) {
      control.lapsed = true;
      control.counters.lapses.incrementAndGet();
      control.revive();
    } else if (control.idleness.idle() > 0 && !control.observeOnly && isSomebodyLate(now)) {
      control.revive();
    }
  }

  /** Whether a task set may start tasks that it could not when slots were last offered. */
  private boolean isSomebodyLate(long now) {
    boolean found = false;
    for (Iterator all = control.watched.values().iterator(); all.hasNext(); ) {
      Watched set = (Watched) all.next();
      if (!set.expired
          && set.waiting() > 0
          && now - set.bornNs > control.holdNs / Control.SHARE_PART) {
        found = control.mayStart(set) || found;
      }
    }
    return found;
  }
}

final class Counters {
  final AtomicLong plans = new AtomicLong();
  final AtomicLong rounds = new AtomicLong();
  final AtomicLong roundNs = new AtomicLong();
  final AtomicLong refused = new AtomicLong();
  final AtomicLong launches = new AtomicLong();
  final AtomicLong overLimit = new AtomicLong();
  final AtomicLong early = new AtomicLong();
  final AtomicLong expired = new AtomicLong();
  final AtomicLong lapses = new AtomicLong();
  final AtomicLong recoveries = new AtomicLong();
  final AtomicLong faults = new AtomicLong();
  final AtomicLong abandoned = new AtomicLong();

  private static final int KEPT_WAITS = 1000;
  private final long[] waitNs = new long[KEPT_WAITS];
  private int waits = 0;

  synchronized void noteWait(long ns) {
    waitNs[waits % KEPT_WAITS] = ns;
    waits++;
  }

  /** Quantile of the newest waits for a first decision, in milliseconds; 0 if there were none. */
  private synchronized double waitMs(double share) {
    int count = Math.min(waits, KEPT_WAITS);
    if (count == 0) {
      return 0.0;
    }
    long[] sorted = java.util.Arrays.copyOf(waitNs, count);
    java.util.Arrays.sort(sorted);
    return sorted[(int) Math.min(count - 1, Math.round(share * (count - 1)))] / 1000000.0;
  }

  Map now(Control control) {
    LinkedHashMap out = new LinkedHashMap();
    out.put("plans", plans);
    out.put("offer_rounds", rounds);
    out.put("offer_round_ns", roundNs);
    out.put("refused_offers", refused);
    out.put("launches_under_limit", launches);
    out.put("launches_over_limit", overLimit);
    out.put("early_launches", early);
    out.put("expired_holds", expired);
    out.put("lapses", lapses);
    out.put("recoveries", recoveries);
    out.put("faults", faults);
    out.put("abandoned", abandoned);
    out.put("task_sets", control.watched.size());
    out.put("first_decision_ms_median", waitMs(0.5));
    out.put("first_decision_ms_p90", waitMs(0.9));
    out.put("held", control.held);
    return out;
  }
}

/** What Python reads and writes, by the library that Spark ships. */
final class Json {
  static final ObjectMapper MAPPER = new ObjectMapper();

  static String text(Object value) throws JsonProcessingException {
    return MAPPER.writeValueAsString(value);
  }
}

/** Private fields of Spark's objects, by the end of their name: Scala prefixes some. */
final class Fields {
  /** Any of Spark's schedulers with the fields that we set: YARN's is one too. */
  static TaskSchedulerImpl schedulerOf(SparkContext context) {
    Object found = context.taskScheduler();
    if (!(found instanceof TaskSchedulerImpl)) {
      throw new IllegalStateException(
          "task scheduler " + found.getClass().getName() + " is no TaskSchedulerImpl");
    }
    return (TaskSchedulerImpl) found;
  }

  static Field find(Object owner, String name) {
    for (Class type = owner.getClass(); type != null; type = type.getSuperclass()) {
      Field[] all = type.getDeclaredFields();
      for (int index = 0; index < all.length; index++) {
        String own = all[index].getName();
        if (own.equals(name) || own.endsWith("$$" + name)) {
          all[index].setAccessible(true);
          return all[index];
        }
      }
    }
    throw new IllegalStateException(owner.getClass().getName() + " has no field " + name);
  }

  static Object get(Object owner, String name) throws Exception {
    return find(owner, name).get(owner);
  }

  static void set(Object owner, String name, Object value) throws Exception {
    find(owner, name).set(owner, value);
  }
}
