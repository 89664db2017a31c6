package decima.spark;

import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** Order of stages and limits of jobs; it never changes. */
public final class Plan {
  static final int NO_LIMIT = Integer.MAX_VALUE;
  static final int UNRANKED = -1;
  static final Plan NONE =
      new Plan(
          Collections.emptyList(), Collections.emptyMap(), Collections.emptyMap(),
          Collections.emptyList(), null, null);

  /** Spark's ids of the stages that may start tasks, first come first served */
  public final List<Integer> chosen;
  /** by job: the most slots that it may hold */
  public final Map<String, Integer> limits;
  /** by group of pools: the most slots that its jobs may hold together; empty: pools have no limit */
  public final Map<String, Integer> pools;
  /** stages with a task to start that the policy knew of and did not choose */
  public final Set<Integer> leftOut;
  /** name of the policy that decided, or of its stand-in */
  public final String by;
  /** why a stand-in decided; null: the policy did */
  public final String fault;
  private final Map<Integer, Integer> rank = new HashMap<>();

  /** @param considered all stages with a task to start that the policy knew of. */
  public Plan(
      List<Integer> chosen,
      Map<String, Integer> limits,
      Map<String, Integer> pools,
      List<Integer> considered,
      String by,
      String fault) {
    this.chosen = chosen;
    this.limits = limits;
    this.pools = pools;
    this.by = by;
    this.fault = fault;
    leftOut = new HashSet<>(considered);
    leftOut.removeAll(chosen);
    for (int place = 0; place < chosen.size(); place++) {
      rank.put(chosen.get(place), place);
    }
  }

  int limitOf(String job) {
    return limits.getOrDefault(job, NO_LIMIT);
  }

  /** Place in the order; `UNRANKED` where the stage was not chosen. */
  int rankOf(int stage) {
    return rank.getOrDefault(stage, UNRANKED);
  }

  /** Decisions of one plan on one task set: looked up once, and read at every offer. */
  static final class Entry {
    final Plan plan;
    /** `UNRANKED` where it was not chosen */
    final int rank;
    /** the plan knows it and has not chosen it */
    final boolean isLeftOut;
    /** slots that its job may hold */
    final int limit;

    Entry(Plan plan, int stage, String job) {
      this.plan = plan;
      rank = plan.rankOf(stage);
      isLeftOut = plan.leftOut.contains(stage);
      limit = plan.limitOf(job);
    }

    boolean isKnown() {
      return rank != UNRANKED || isLeftOut;
    }
  }
}
