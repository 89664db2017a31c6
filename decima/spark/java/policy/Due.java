package decima.policy;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** Whether a report calls for a plan, or what waits will start without one. */
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
    if (report.sets.stream().noneMatch(one -> one.waiting() > 0)) {
      return false;
    }
    List<Integer> now = new ArrayList<>();
    now.add(report.slots);
    for (Report.TaskSet one : report.sets) {
      now.add(one.stage);
      now.add(one.attempt);
      now.add(one.waiting() > 0 ? 1 : 0);
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
  static boolean startsByItself(Report report, Plan plan) {
    int waiting = 0;
    for (Report.TaskSet one : report.sets) {
      waiting += one.waiting();
    }
    if (waiting > report.slots - report.running()) {
      return false;
    }
    if (plan == null) {
      return true;
    }
    Set<Integer> heldBack = new HashSet<>(plan.considered);
    heldBack.removeAll(plan.chosen);
    Map<String, Integer> wants = new HashMap<>();
    Map<String, Integer> ofPools = new HashMap<>();
    for (Report.TaskSet one : report.sets) {
      if (one.waiting() > 0 && heldBack.contains(one.stage)) {
        return false;
      }
      wants.merge(one.job, one.running + one.waiting(), Integer::sum);
      ofPools.merge(one.group(), one.running + one.waiting(), Integer::sum);
    }
    return areWithin(wants, plan.limits) && areWithin(ofPools, plan.pools);
  }

  private static boolean areWithin(Map<String, Integer> wants, Map<String, Integer> limits) {
    for (Map.Entry<String, Integer> limit : limits.entrySet()) {
      if (wants.getOrDefault(limit.getKey(), 0) > limit.getValue()) {
        return false;
      }
    }
    return true;
  }
}
