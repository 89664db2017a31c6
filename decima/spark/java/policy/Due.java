package decima.policy;

import decima.spark.Plan;
import decima.spark.Report;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** Whether a report calls for a plan, or waiting tasks will start without one. */
public final class Due {
  /** what can start at once has started after so long, or something holds it back */
  private static final long SETTLE_NS = 50_000_000L;

  private List<Integer> signature = null;
  private long sinceNs = 0;

  /**
   * Whether anything happened that a plan depends on, or a slot stands idle beside a task that will
   * not start by itself.
   *
   * @param plan the one in force; null before the first.
   * @param nowNs on any clock.
   */
  public boolean isDue(Report report, Plan plan, long nowNs) {
    if (!report.hasWaitingTasks()) {
      return false;
    }
    List<Integer> now = new ArrayList<>();
    now.add(report.slots);
    for (Report.TaskSet set : report.sets) {
      now.add(set.stage);
      now.add(set.attempt);
      now.add(set.waiting() > 0 ? 1 : 0);
    }
    boolean isNew = !now.equals(signature);
    if (isNew) {
      signature = now;
      sinceNs = nowNs;
    }
    if (nowNs - sinceNs < SETTLE_NS && startsByItself(report, plan)) {
      return false;
    }
    return isNew || report.running() < report.slots;
  }

  /** Whether every waiting task has an idle slot, and the plan in force keeps none from it. */
  private static boolean startsByItself(Report report, Plan plan) {
    int waiting = report.sets.stream().mapToInt(Report.TaskSet::waiting).sum();
    if (waiting > report.slots - report.running()) {
      return false;
    }
    if (plan == null) {
      return true;
    }
    Map<String, Integer> wants = new HashMap<>();
    Map<String, Integer> ofPools = new HashMap<>();
    for (Report.TaskSet set : report.sets) {
      if (set.waiting() > 0 && plan.leftOut.contains(set.stage)) {
        return false;
      }
      wants.merge(set.job, set.running + set.waiting(), Integer::sum);
      ofPools.merge(set.group(), set.running + set.waiting(), Integer::sum);
    }
    return areWithin(wants, plan.limits) && areWithin(ofPools, plan.pools);
  }

  private static boolean areWithin(Map<String, Integer> wants, Map<String, Integer> limits) {
    return limits.entrySet().stream()
        .allMatch(limit -> wants.getOrDefault(limit.getKey(), 0) <= limit.getValue());
  }
}
