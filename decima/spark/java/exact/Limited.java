package decima.spark;

import java.util.concurrent.atomic.AtomicInteger;
import org.apache.spark.scheduler.DirectTaskResult;
import org.apache.spark.scheduler.TaskSet;
import org.apache.spark.scheduler.TaskSetManager;
import org.apache.spark.util.Clock;
import scala.Enumeration;
import scala.Option;

/** A task set that starts no task beyond the limit of its job, nor before a decision is due. */
final class Limited extends TaskSetManager {
  private final Control control;
  final int stage;
  final String job;
  /** the caps that it is under (`Caps`); they change only before a task of it starts */
  volatile String[] caps = new String[0];
  /** all of them are known */
  volatile boolean isSettled = false;
  /** its group of pools (`PoolCounts`); null: it is in no pool yet */
  volatile String group = null;
  /** slots that the group holds; null as `group` */
  volatile AtomicInteger groupHeld = null;
  /** slots that its job holds through task sets of the plugin's */
  final AtomicInteger held;
  /** needs all its slots at once, or slots of another kind than those that plans give away */
  final boolean isUnlimited;
  final long bornNs = System.nanoTime();
  volatile boolean expired = false;
  volatile boolean ranDry = false;
  volatile boolean isDecided = false;
  /** it waits for its first decision, and the planner was urged */
  volatile boolean hasAsked = false;
  private volatile Plan.Entry entry = null;
  /** among the jobs that may run at once; null: any number may */
  private final Admission.Place place;

  Limited(Control control, TaskSetManager original, Option health, Clock clock, String job) {
    super(
        control.scheduler, original.taskSet(), original.maxTaskFailures(), health, clock);
    this.control = control;
    this.stage = taskSet().stageId();
    this.job = job;
    this.held = control.counterOf(job);
    this.isUnlimited = isBarrier() || isPipelined() || !isOfDefaultProfile(this);
    control.caps.take(this);
    this.place = control.isBounded ? placeOf(job) : null;
  }

  private Admission.Place placeOf(String job) {
    try {
      return control.admission.enter(job, taskSet().priority());
    } catch (Throwable fault) {
      control.liftBound();
      return null;
    }
  }

  /** Whether its job waits until another one ends. */
  boolean isWaiting() {
    return place != null && !place.isAdmitted && control.isBounded;
  }

  /** Since when it may start tasks, as far as the number of jobs goes. */
  long openNs() {
    return place == null || !place.isAdmitted ? bornNs : Math.max(bornNs, place.admittedNs);
  }

  /** The manager as one of the plugin's; null for one of Spark's own. */
  static Limited of(TaskSetManager manager) {
    return manager instanceof Limited ? (Limited) manager : null;
  }

  static boolean isOfDefaultProfile(TaskSetManager manager) {
    return manager.taskSet().resourceProfileId() == 0;
  }

  /** Spark 4.3 may run a stage and the one that reads its output at the same time. */
  private boolean isPipelined() {
    try {
      return Boolean.TRUE.equals(TaskSet.class.getMethod("isPipelined").invoke(taskSet()));
    } catch (NoSuchMethodException older) {
      return false;
    } catch (Exception unknown) {
      throw new IllegalStateException("TaskSet.isPipelined: " + unknown, unknown);
    }
  }

  String key() {
    return stage + "." + taskSet().stageAttemptId();
  }

  /** Decisions of this plan on it. */
  Plan.Entry in(Plan plan) {
    Plan.Entry known = entry;
    if (known == null || known.plan != plan) {
      known = new Plan.Entry(plan, stage, job);
      entry = known;
    }
    return known;
  }

  /** Whether its wait for a decision is over though no plan knows it. */
  boolean isFreeOf(Plan plan) {
    return !in(plan).isLeftOut && (isDecided || expired);
  }

  int waiting() {
    return waiting(this);
  }

  /** Tasks that no slot runs and that have not succeeded; a zombie starts none. */
  static int waiting(TaskSetManager manager) {
    return manager.isZombie()
        ? 0
        : manager.numTasks() - manager.tasksSuccessful() - manager.runningTasks();
  }

  // Log readers look for Spark's names.
  public String logName() {
    return TaskSetManager.class.getName();
  }

  // Overridden here and not in resourceOffer, whose signature differs between versions of Spark.
  public Option dequeueTaskHelper(
      String executor, String host, Enumeration.Value locality, boolean speculative) {
    if (control != null && isRefused(executor)) {
      return Option.empty();
    }
    return super.dequeueTaskHelper(executor, host, locality, speculative);
  }

  private boolean isRefused(String executor) {
    long began = System.nanoTime();
    try {
      if (control.isLeaving(executor)) {
        return true;
      }
      if (control.mayStart(this)) {
        return false;
      }
      control.counters.refused.incrementAndGet();
      return true;
    } catch (Throwable fault) {
      control.counters.faults.incrementAndGet();
      return isCapped(); // the plan is lost, and caps hold
    } finally {
      control.counters.addToRound(System.nanoTime() - began);
    }
  }

  /** Whether caps leave no slot, or cannot be read: nothing is thrown into Spark's round. */
  private boolean isCapped() {
    try {
      return control.areCapsMiscounted || control.caps.room(this) == 0;
    } catch (Throwable fault) {
      return control.hasCaps;
    }
  }

  public void addRunningTask(long task) {
    int before = runningTasks();
    super.addRunningTask(task);
    try {
      control.changeHeld(this, runningTasks() - before);
      if (!ranDry && waiting() <= 0) {
        ranDry = true;
        control.events.touch();
      }
    } catch (Throwable fault) {
      control.areCapsMiscounted = control.hasCaps;
      control.counters.faults.incrementAndGet();
    }
  }

  public void removeRunningTask(long task) {
    int before = runningTasks();
    super.removeRunningTask(task);
    try {
      control.changeHeld(this, runningTasks() - before);
      if (waiting() > 1) {
        ranDry = false; // more than the task that has ended: others are to start again
      }
    } catch (Throwable fault) {
      control.areCapsMiscounted = control.hasCaps;
      control.counters.faults.incrementAndGet();
    }
  }

  // Between the end of a task and this its slot is free, and it counts as waiting.
  public void handleSuccessfulTask(long task, DirectTaskResult result) {
    super.handleSuccessfulTask(task, result);
    if (waiting() <= 0) {
      // The plan has no use for the slot: it was not on offer when the plan was made.
      control.events.touch();
    }
  }
}
