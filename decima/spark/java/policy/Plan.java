package decima.policy;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Order of stages and limits of jobs. */
public final class Plan {
  /** Spark's ids of the stages that may start tasks, first come first served */
  public final List<Integer> chosen;
  /** by job: the most slots that it may hold */
  public final Map<String, Integer> limits;
  /** by group of pools: the most slots that its jobs may hold together; empty if there is but one */
  public final Map<String, Integer> pools;
  /** all stages with a task to start that the policy knew of */
  public final List<Integer> considered;
  /** name of the policy that decided, or of what stood in for it */
  public final String by;
  /** why something stood in; null: nothing did */
  public final String fault;

  Plan(
      List<Integer> chosen,
      Map<String, Integer> limits,
      Map<String, Integer> pools,
      List<Integer> considered,
      String by,
      String fault) {
    this.chosen = chosen;
    this.limits = limits;
    this.pools = pools;
    this.considered = considered;
    this.by = by;
    this.fault = fault;
  }

  /** As those who follow it take it. */
  public Map<String, Object> message(long number) {
    List<Integer> others = new ArrayList<>(considered);
    others.removeAll(chosen);
    Map<String, Object> found = new LinkedHashMap<>();
    found.put("number", number);
    found.put("limits", limits);
    if (!pools.isEmpty()) {
      found.put("pools", pools);
    }
    found.put("chosen", chosen);
    found.put("others", others);
    return found;
  }
}
