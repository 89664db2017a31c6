package decima.spark;

import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.spark.scheduler.Pool;
import org.apache.spark.scheduler.TaskSetManager;

/**
 * Pools of Spark's FAIR scheduler that have a weight or minShare of their own, and the slots that
 * their task sets hold. All other pools are one group.
 */
public final class PoolCounts {
  public static final String OTHERS = "";

  /** false: weights and minShares of pools are ignored */
  volatile boolean areKept = false;
  private final ConcurrentHashMap<String, AtomicInteger> held = new ConcurrentHashMap<>();

  /** The group of a task set; it is in a pool before its first task starts. */
  String groupOf(Limited set) {
    String known = set.group;
    if (known != null) {
      return known;
    }
    if (set.parent() == null) {
      return OTHERS;
    }
    Pool pool = poolOf(set);
    String group =
        pool != null && Report.PoolInfo.hasSettings(pool.weight(), pool.minShare())
            ? pool.name()
            : OTHERS;
    set.groupHeld = held.computeIfAbsent(group, name -> new AtomicInteger());
    set.group = group;
    return group;
  }

  /** Its pool; null where the scheduler is FIFO, or pools are ignored. */
  Pool poolOf(TaskSetManager manager) {
    Pool parent = manager.parent();
    boolean isRoot = parent == null || parent instanceof RankPool || parent.parent() == null;
    return areKept && !isRoot ? parent : null;
  }

  void changeHeld(Limited set, int change) {
    groupOf(set);
    AtomicInteger count = set.groupHeld;
    if (count != null) {
      count.addAndGet(change);
    }
  }

  /** Slots that the plan leaves a group. */
  int room(Plan plan, String group) {
    Integer limit = plan.pools.get(group);
    AtomicInteger count = held.get(group);
    return limit == null ? Plan.NO_LIMIT : Math.max(0, limit - (count == null ? 0 : count.get()));
  }

  /** Whether the plan leaves the task set's group a slot. */
  boolean hasRoom(Plan plan, Limited set) {
    return plan.pools.isEmpty() || room(plan, groupOf(set)) > 0;
  }
}
