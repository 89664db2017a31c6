package decima.spark;

import java.util.HashMap;
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
  private final Map<Schedulable, int[]> original = new HashMap<>();

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
      if (!control.attached) {
        return;
      }
      for (TaskSetManager manager : control.session.taskSets()) {
        TaskSet set = manager.taskSet();
        int limit = plan.limitOf(Owners.jobOf(set.properties(), set.priority()));
        int share = limit == Plan.NO_LIMIT ? 0 : limit;
        set(manager.parent(), share, Math.max(1, share));
      }
    }
  }

  /** Give the pools their own shares back. */
  void giveBack() throws Exception {
    synchronized (control.scheduler) {
      for (Map.Entry<Schedulable, int[]> pool : new HashMap<>(original).entrySet()) {
        set(pool.getKey(), pool.getValue()[0], pool.getValue()[1]);
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
