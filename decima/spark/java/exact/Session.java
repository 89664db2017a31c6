package decima.spark;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.scheduler.Pool;
import org.apache.spark.scheduler.Schedulable;
import org.apache.spark.scheduler.TaskSet;
import org.apache.spark.scheduler.TaskSetManager;

/**
 * All task sets of the session, its slots, and how many of these are wasted: they stand idle beside
 * tasks that the plan, and nothing else, keeps from starting, by its limits, or as it did not choose
 * their stage. Tasks that may start and do not are Spark's affair (locality, excluded executors,
 * barriers), and a new stage's wait for its first decision is short.
 */
final class Session {
  private final Control control;
  /** tasks that can run at once */
  volatile int slots = 0;
  private int knownSlots = 0;
  private long wastedSinceNs = 0;
  private int wasted = 0;
  /** slots that no task runs on, whatever the reason */
  private int idle = 0;

  Session(Control control) {
    this.control = control;
  }

  /** Report a consistent picture of all task sets, and the events that were not read yet. */
  Report report() {
    Report report = new Report();
    report.timeMs = System.currentTimeMillis();
    report.lapsed = control.lapsed;
    report.attached = control.isServed();
    boolean isPlaceFree = control.isBounded && control.admission.isUndecided();
    synchronized (control.scheduler) {
      countSlots();
      List<TaskSetManager> managers = taskSets();
      forgetOthers(managers);
      for (TaskSetManager manager : managers) {
        Limited set = Limited.of(manager);
        boolean isHeldUp = set != null && set.isWaiting();
        if (isHeldUp && isPlaceFree) {
          report.waitingSets.add(reported(manager));
        } else if (Limited.isOfDefaultProfile(manager) && !isHeldUp) {
          report.sets.add(reported(manager));
        }
      }
    }
    report.slots = slots;
    synchronized (this) {
      report.idleMs = wastedMs();
      report.idleSlots = control.events.takeIdle(wasted);
    }
    report.caps = control.caps.reported();
    if (control.isBounded) {
      report.waitingJobs = control.admission.waiting();
    }
    control.events.drainTo(report);
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
    List<TaskSetManager> managers = new ArrayList<>();
    collect(control.root, managers);
    return managers;
  }

  /** All task sets; the sorted queue of a pool leaves out those with no task to start. */
  private static void collect(Pool pool, List<TaskSetManager> managers) {
    for (Schedulable child : pool.schedulableQueue()) {
      if (child instanceof Pool) {
        collect((Pool) child, managers);
      } else if (child instanceof TaskSetManager) {
        managers.add((TaskSetManager) child);
      }
    }
  }

  /** Drop task sets that have left Spark's pools; inform the others of new executors. */
  private void forgetOthers(List<TaskSetManager> managers) {
    Set<String> keys = new HashSet<>();
    Set<String> jobs = new HashSet<>();
    Set<String> caps = new HashSet<>();
    for (TaskSetManager manager : managers) {
      Limited set = Limited.of(manager);
      if (set != null) {
        keys.add(set.key());
        jobs.add(set.job);
        caps.addAll(Arrays.asList(set.caps));
        if (slots > knownSlots) {
          manager.executorAdded(); // an offer round informs only those that `RankPool` lists
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
    Limited watched = Limited.of(manager);
    Report.TaskSet row = new Report.TaskSet();
    row.stage = set.stageId();
    row.attempt = set.stageAttemptId();
    row.job = watched == null ? Owners.jobOf(set.properties(), set.priority()) : watched.job;
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

  // --- slots that stand idle -----------------------------------------------------------------

  /** For how long slots have been wasted, as often as it was looked at. */
  synchronized long wastedMs() {
    return wasted == 0 ? 0L : (System.nanoTime() - wastedSinceNs) / 1000000L;
  }

  synchronized int idle() {
    return idle;
  }

  synchronized void countIdle() {
    int counted = countWasted();
    int now = control.isFree() || control.observeOnly ? 0 : counted;
    control.events.noteIdle(now, wasted == 0);
    if (wasted == 0) {
      wastedSinceNs = System.nanoTime();
    }
    wasted = now;
  }

  private int countWasted() {
    if (control.watched.isEmpty()) {
      idle = 0;
      return 0;
    }
    Plan plan = control.plan;
    idle = slots;
    int usable = 0;
    int refused = 0;
    Map<String, Integer> waitingOf = new HashMap<>();
    Map<String, String> groupOf = new HashMap<>();
    for (TaskSetManager manager : taskSets()) {
      if (!Limited.isOfDefaultProfile(manager)) {
        continue;
      }
      idle -= manager.runningTasks();
      Limited set = Limited.of(manager);
      if (set != null && set.isWaiting()) {
        continue;
      }
      int waiting = Math.max(0, Limited.waiting(manager));
      if (set == null || set.isUnlimited) {
        usable += waiting;
        continue;
      }
      waiting = Math.min(waiting, control.caps.room(set)); // caps keep the others back, not plans
      if (set.in(plan).rank != Plan.UNRANKED || set.isFreeOf(plan)) {
        waitingOf.merge(set.job, waiting, Integer::sum);
        groupOf.put(set.job, control.pools.groupOf(set));
      } else if (set.in(plan).isLeftOut) {
        refused += waiting;
      }
    }
    Map<String, Integer> room = new HashMap<>();
    for (Map.Entry<String, Integer> entry : waitingOf.entrySet()) {
      String group = groupOf.get(entry.getKey());
      int ofJob = plan.limitOf(entry.getKey()) - control.heldBy(entry.getKey());
      int ofGroup = room.computeIfAbsent(group, name -> control.pools.room(plan, name));
      int started = Math.min(entry.getValue(), Math.min(ofGroup, Math.max(0, ofJob)));
      room.put(group, ofGroup - started);
      usable += started;
      refused += entry.getValue() - started;
    }
    return Math.max(0, Math.min(idle - usable, refused));
  }
}
