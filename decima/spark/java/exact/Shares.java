package decima.spark;

import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import org.apache.spark.scheduler.Schedulable;
import org.apache.spark.scheduler.SchedulingMode;
import org.apache.spark.scheduler.TaskSet;
import org.apache.spark.scheduler.TaskSetManager;

/**
 * Limits as minimum shares and weights of Spark's own FAIR pools, a pool for each job. A share is a
 * target, not a cap: slots that no other job wants are still given away, and the order inside a pool
 * stays Spark's.
 */
final class Shares {
  private static final String SHARE = "minShare";
  private static final String WEIGHT = "weight";

  private final Control control;
  /** by pool: its own share and weight */
  private final Map<Schedulable, int[]> original = new HashMap<Schedulable, int[]>();

  /** @throws IllegalStateException the session does not use the FAIR scheduler. */
  Shares(Control control) {
    this.control = control;
    Object mode = control.context.getSchedulingMode();
    if (!mode.equals(SchedulingMode.FAIR())) {
      throw new IllegalStateException(
          "mode 'soft' needs spark.scheduler.mode=FAIR and a pool for each job, not " + mode);
    }
  }

  /** Set the share of each job's pool to the job's limit; jobs without one get none. */
  void apply(Plan plan) throws Exception {
    synchronized (control.scheduler) {
      List sets = control.session.taskSets();
      for (Iterator all = sets.iterator(); all.hasNext() && control.attached; ) {
        TaskSetManager manager = (TaskSetManager) all.next();
        TaskSet set = manager.taskSet();
        int limit = plan.limitOf(Jobs.jobOf(set.properties(), set.priority()));
        int share = limit == Control.NO_LIMIT ? 0 : limit;
        set(manager.parent(), share, Math.max(1, share));
      }
    }
  }

  /** Give the pools their own shares back. */
  void giveBack() throws Exception {
    synchronized (control.scheduler) {
      for (Map.Entry<Schedulable, int[]> one : new HashMap<Schedulable, int[]>(original).entrySet()) {
        set(one.getKey(), one.getValue()[0], one.getValue()[1]);
      }
      original.clear();
    }
  }

  private void set(Schedulable pool, int share, int weight) throws Exception {
    if (pool == control.root) {
      return;
    }
    if (!original.containsKey(pool)) {
      original.put(pool, new int[] {pool.minShare(), pool.weight()});
    }
    // Both are final: Java 26 warns of that.
    Fields.find(pool, SHARE).setInt(pool, share);
    Fields.find(pool, WEIGHT).setInt(pool, weight);
  }
}
