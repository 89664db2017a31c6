package decima.spark;

import java.util.concurrent.atomic.AtomicInteger;
import org.apache.spark.scheduler.TaskSet;
import org.apache.spark.scheduler.TaskSetManager;

/** A task set of the plugin's, and whether its wait for a decision has ended. */
final class Watched {
  final TaskSetManager manager;
  final int stage;
  final int attempt;
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

  Watched(TaskSetManager manager, String job, AtomicInteger held) {
    this.manager = manager;
    this.stage = manager.taskSet().stageId();
    this.attempt = manager.taskSet().stageAttemptId();
    this.job = job;
    this.held = held;
    this.isUnlimited = manager.isBarrier() || isPipelined() || !isOfDefaultProfile(manager);
  }

  /** The task set of a manager of the plugin's; null for one of Spark's own. */
  static Watched of(TaskSetManager manager) {
    return manager instanceof Limited ? ((Limited) manager).watched : null;
  }

  static boolean isOfDefaultProfile(TaskSetManager manager) {
    return manager.taskSet().resourceProfileId() == 0;
  }

  /** Spark 4.3 may run a stage and the one that reads its output at the same time. */
  private boolean isPipelined() {
    try {
      return Boolean.TRUE.equals(TaskSet.class.getMethod("isPipelined").invoke(manager.taskSet()));
    } catch (NoSuchMethodException older) {
      return false;
    } catch (Exception unknown) {
      throw new IllegalStateException("TaskSet.isPipelined: " + unknown, unknown);
    }
  }

  String key() {
    return stage + "." + attempt;
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
    return waiting(manager);
  }

  /** Tasks that no slot runs and that have not succeeded; a zombie starts none. */
  static int waiting(TaskSetManager manager) {
    return manager.isZombie() ? 0 : manager.numTasks() - manager.tasksSuccessful() - manager.runningTasks();
  }
}
