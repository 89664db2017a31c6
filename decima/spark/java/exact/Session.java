package decima.spark;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.spark.scheduler.Pool;
import org.apache.spark.scheduler.Schedulable;
import org.apache.spark.scheduler.TaskSet;
import org.apache.spark.scheduler.TaskSetManager;

/** All task sets of the session, and its slots. */
final class Session {
  private final Control control;
  /** tasks that can run at once */
  volatile int slots = 0;
  private int knownSlots = 0;

  Session(Control control) {
    this.control = control;
  }

  /** Report a consistent picture of all task sets, and the events that `reader` holds. */
  Report report(Reader reader) {
    Report report = new Report();
    report.timeMs = System.currentTimeMillis();
    report.lapsed = control.lapsed;
    report.attached = control.isServed();
    synchronized (control.scheduler) {
      countSlots();
      List<TaskSetManager> managers = taskSets();
      forgetOthers(managers);
      for (TaskSetManager manager : managers) {
        if (Watched.isOfDefaultProfile(manager)) {
          report.sets.add(reported(manager));
        }
      }
    }
    report.slots = slots;
    report.idleMs = control.idleness.ms();
    report.idleSlots = reader.takeIdle(control.idleness.wasted());
    report.caps = control.caps.reported();
    reader.drainTo(report);
    return report;
  }

  /** Housekeeping of `report`, for when none is requested. */
  void tidy() {
    synchronized (control.scheduler) {
      countSlots();
      forgetOthers(taskSets());
    }
  }

  void countSlots() {
    slots =
        control.context.maxNumConcurrentTasks(
            control.context.resourceProfileManager().defaultResourceProfile());
  }

  /** Those of Spark's pools, in no order; read without a lock. */
  List<TaskSetManager> taskSets() {
    List<TaskSetManager> found = new ArrayList<>();
    collect(control.root, found);
    return found;
  }

  /** All task sets; the sorted queue of a pool leaves out those with no task to start. */
  private static void collect(Pool pool, List<TaskSetManager> found) {
    for (Schedulable child : pool.schedulableQueue()) {
      if (child instanceof Pool) {
        collect((Pool) child, found);
      } else if (child instanceof TaskSetManager) {
        found.add((TaskSetManager) child);
      }
    }
  }

  /** Drop task sets that Spark has let go of; inform the others of new executors. */
  private void forgetOthers(List<TaskSetManager> managers) {
    Set<String> keys = new HashSet<>();
    Set<String> jobs = new HashSet<>();
    Set<String> caps = new HashSet<>();
    for (TaskSetManager manager : managers) {
      Watched set = Watched.of(manager);
      if (set != null) {
        keys.add(set.key());
        jobs.add(set.job);
        caps.addAll(Arrays.asList(set.caps));
        if (slots > knownSlots) {
          manager.executorAdded(); // an offer round tells only those that `RankPool` lets through
        }
      }
    }
    knownSlots = slots;
    control.watched.keySet().retainAll(keys);
    control.held.keySet().retainAll(jobs);
    control.caps.retain(caps, jobs);
  }

  private Report.TaskSet reported(TaskSetManager manager) {
    TaskSet set = manager.taskSet();
    Watched watched = Watched.of(manager);
    Report.TaskSet row = new Report.TaskSet();
    row.stage = set.stageId();
    row.attempt = set.stageAttemptId();
    row.job = watched == null ? Jobs.jobOf(set.properties(), set.priority()) : watched.job;
    row.numTasks = manager.numTasks();
    row.successful = manager.tasksSuccessful();
    row.running = manager.runningTasks();
    row.isZombie = manager.isZombie();
    Pool pool = control.pools.poolOf(manager);
    if (pool != null) {
      row.pool = new Report.PoolInfo();
      row.pool.name = pool.name();
      row.pool.weight = pool.weight();
      row.pool.minShare = pool.minShare();
    }
    return row;
  }
}
