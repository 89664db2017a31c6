package decima.spark;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import org.apache.spark.scheduler.Pool;
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

  /** One consistent picture of all task sets, and what `reader` has not read yet. */
  LinkedHashMap report(Reader reader) {
    LinkedHashMap out = new LinkedHashMap();
    out.put("time_ms", System.currentTimeMillis());
    out.put("plan", control.plan.number);
    out.put("lapsed", control.lapsed);
    out.put("attached", control.isServed());
    out.put("dropped", reader.dropped());
    ArrayList reported = new ArrayList();
    synchronized (control.scheduler) {
      countSlots();
      List sets = taskSets();
      forgetOthers(sets);
      for (int index = 0; index < sets.size(); index++) {
        TaskSetManager manager = (TaskSetManager) sets.get(index);
        if (Watched.isOfDefaultProfile(manager)) {
          reported.add(reported(manager));
        }
      }
    }
    out.put("sets", reported);
    out.put("slots", slots);
    out.put("idle_ms", control.idleness.ms());
    out.put("idle_slots", reader.takeIdle(control.idleness.wasted()));
    out.put("caps", control.caps.reported());
    out.put("events", reader.takeEvents());
    out.put("measured", reader.takeMeasured());
    return out;
  }

  /** What reports do besides: for when nobody asks for one. */
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
  List taskSets() {
    ArrayList found = new ArrayList();
    collect(control.root, found);
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
    HashSet caps = new HashSet();
    for (int index = 0; index < sets.size(); index++) {
      if (sets.get(index) instanceof Limited) {
        Limited own = (Limited) sets.get(index);
        keys.add(own.watched.key());
        jobs.add(own.watched.job);
        caps.addAll(Arrays.asList(own.watched.caps));
        if (slots > knownSlots) {
          own.executorAdded(); // an offer round tells only those that `RankPool` lets through
        }
      }
    }
    knownSlots = slots;
    control.watched.keySet().retainAll(keys);
    control.held.keySet().retainAll(jobs);
    control.caps.retain(caps, jobs);
  }

  private List reported(TaskSetManager manager) {
    TaskSet set = manager.taskSet();
    String job =
        manager instanceof Limited
            ? ((Limited) manager).watched.job
            : Jobs.jobOf(set.properties(), set.priority());
    Pool pool = control.pools.poolOf(manager);
    return Arrays.asList(
        new Object[] {
          set.stageId(),
          set.stageAttemptId(),
          job,
          manager.numTasks(),
          manager.tasksSuccessful(),
          manager.runningTasks(),
          manager.isZombie(),
          pool == null ? null : pool.name(),
          pool == null ? 0 : pool.weight(),
          pool == null ? 0 : pool.minShare()
        });
  }
}
