package decima.spark;

import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;

/** Order and limits, as decided; it never changes. */
final class Plan {
  static final Plan NONE = new Plan(0);

  final long number;
  private int ranks = 0;
  final HashMap limit = new HashMap();
  final HashMap rank = new HashMap();
  /** by group of pools: slots that its task sets may hold together; empty: pools have no limit */
  final HashMap poolLimit = new HashMap();
  final HashSet seen = new HashSet();

  private Plan(long number) {
    this.number = number;
  }

  /**
   * @param message its "number", the "limits" of jobs and of "pools", the stages "chosen" in their
   *     order, and the "others", seen but not chosen.
   */
  static Plan of(Map message) {
    Plan plan = new Plan(((Number) message.get("number")).longValue());
    plan.limit.putAll((Map) message.get("limits"));
    if (message.get("pools") != null) {
      plan.poolLimit.putAll((Map) message.get("pools"));
    }
    List chosen = (List) message.get("chosen");
    plan.ranks = chosen.size();
    for (int index = 0; index < plan.ranks; index++) {
      plan.rank.put(chosen.get(index), Integer.valueOf(index));
    }
    plan.seen.addAll((List) message.get("others"));
    return plan;
  }

  /** All ranks are below. */
  int ranks() {
    return ranks;
  }

  int limitOf(String job) {
    Integer found = (Integer) limit.get(job);
    return found == null ? Control.NO_LIMIT : found.intValue();
  }

  int limitOfPool(String pool) {
    Integer found = (Integer) poolLimit.get(pool);
    return found == null ? Control.NO_LIMIT : found.intValue();
  }

  int rankOf(Integer stage) {
    Integer found = (Integer) rank.get(stage);
    return found == null ? PlanEntry.UNRANKED : found.intValue();
  }
}
