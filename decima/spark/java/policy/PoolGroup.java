package decima.policy;

import decima.spark.PoolCounts;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Comparator;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.PriorityQueue;
import java.util.Set;

/**
 * Jobs that one policy decides among, and its decisions: the jobs of a pool with a weight or minShare
 * of its own, or those of all other pools together. Each group has the slots that Spark's
 * FairSchedulingAlgorithm would give its pools.
 */
final class PoolGroup {
  /** group of the pools that have Spark's defaults; as many of these with work are its weight */
  static final String OTHERS = PoolCounts.OTHERS;

  /** as Spark compares pools: below the minShare first, then the fewest slots for the weight */
  private static final Comparator<PoolGroup> BY_CLAIM =
      (one, other) -> {
        boolean isNeedy = one.dealt < one.minShare;
        if (isNeedy != other.dealt < other.minShare) {
          return isNeedy ? -1 : 1;
        }
        int order = Double.compare(one.claim(isNeedy), other.claim(isNeedy));
        return order == 0 ? one.name.compareTo(other.name) : order;
      };

  final String name;
  final List<LiveJob> jobs = new ArrayList<>();
  /** slots that its policy may give away */
  int slots;
  /** a job of it has waited too long: it gets the next slot */
  boolean isFirst = false;
  /** tasks that run or wait */
  private int demand = 0;
  private int weight = 0;
  private int minShare = 0;
  private int dealt = 0;

  // decisions for the group, once a task of it waits
  /** null: no task waits */
  LiveTables tables = null;
  /** Spark's ids of the stages with a task to start */
  List<Integer> considered = Collections.emptyList();
  /** null: no task waits, or the group has no slot */
  Round round = null;
  /** name of the policy that decided */
  String by = null;
  /** whether the policy had anything to decide */
  boolean isAsked = false;

  private PoolGroup(String name) {
    this.name = name;
  }

  /** Slots that its jobs hold or are given. */
  int used() {
    return round == null
        ? jobs.stream().mapToInt(job -> job.running).sum()
        : round.tables.slots - round.unused();
  }

  /** Whether slots stand idle beside tasks that could start. */
  boolean isIdleBesideTasks() {
    return round != null && round.unused() > 0 && round.tasksLeft() > 0;
  }

  private double claim(boolean isNeedy) {
    return (double) dealt / (isNeedy ? minShare : weight);
  }

  /**
   * The jobs that run, in groups, and the slots of each; one group if no pool has settings of its own.
   *
   * @param slots of the session.
   */
  static List<PoolGroup> of(LiveJobs live, int slots) {
    List<PoolGroup> groups = grouped(live.active());
    if (groups.size() == 1) {
      groups.get(0).slots = slots;
    } else {
      groups.forEach(PoolGroup::measure);
      // its share of all, or more where others have no use for theirs
      deal(groups, slots, false);
      groups.forEach(group -> group.slots = group.dealt);
      int left = deal(groups, slots, true);
      groups.forEach(group -> group.slots = Math.max(group.slots, group.dealt + left));
    }
    return groups;
  }

  private static List<PoolGroup> grouped(List<LiveJob> jobs) {
    Map<String, PoolGroup> byName = new LinkedHashMap<>();
    for (LiveJob job : jobs) {
      boolean hasPool = job.pool != null && job.pool.hasSettings();
      byName.computeIfAbsent(hasPool ? job.pool.name : OTHERS, PoolGroup::new).jobs.add(job);
    }
    return new ArrayList<>(byName.values());
  }

  /** Of jobs that wait for a place those of the group that Spark would give the next slot. */
  static List<LiveJob> due(LiveJobs live, List<LiveJob> waiting) {
    List<LiveJob> all = live.active();
    all.addAll(waiting);
    List<PoolGroup> groups = grouped(all);
    for (PoolGroup group : groups) {
      group.measure();
      group.dealt = group.used();
      group.jobs.retainAll(waiting);
    }
    groups.removeIf(group -> group.jobs.isEmpty());
    return groups.isEmpty() ? waiting : Collections.min(groups, BY_CLAIM).jobs;
  }

  /** Find out what the jobs can use, and the settings of their pools. */
  private void measure() {
    Set<String> pools = new HashSet<>();
    for (LiveJob job : jobs) {
      int tasks = job.tasksLeft();
      demand += tasks;
      if (!name.equals(OTHERS)) {
        weight = job.pool.weight;
        minShare = job.pool.minShare;
      } else if (tasks > 0) {
        pools.add(job.pool == null ? OTHERS : job.pool.name);
        weight = pools.size();
      }
    }
    weight = Math.max(1, weight);
  }

  /**
   * Deal the slots one by one to the group that is due; returns how many are left.
   *
   * @param isBounded no group gets more than it has tasks for.
   */
  private static int deal(List<PoolGroup> groups, int slots, boolean isBounded) {
    PriorityQueue<PoolGroup> due = new PriorityQueue<>(BY_CLAIM);
    for (PoolGroup group : groups) {
      group.dealt = 0;
      if (group.demand > 0) {
        due.add(group);
      }
    }
    int left = slots;
    for (; left > 0 && !due.isEmpty(); left--) {
      PoolGroup next = due.poll();
      next.dealt += 1;
      if (!isBounded || next.dealt < next.demand) {
        due.add(next);
      }
    }
    return left;
  }

  /**
   * Let groups use the slots that another's decisions leave idle beside its own tasks; returns the
   * groups that have more slots than before.
   */
  static List<PoolGroup> shareAgain(List<PoolGroup> groups, int slots) {
    for (PoolGroup group : groups) {
      if (group.isIdleBesideTasks()) {
        group.demand = Math.min(group.demand, group.used());
      }
    }
    deal(groups, slots, true);
    List<PoolGroup> larger = new ArrayList<>();
    for (PoolGroup group : groups) {
      if (group.dealt > group.slots) {
        group.slots = group.dealt;
        larger.add(group);
      }
    }
    return larger;
  }
}
