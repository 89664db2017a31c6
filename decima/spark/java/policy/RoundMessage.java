package decima.policy;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * A round for a policy that decides outside the JVM, and its answer (decima/spark/tables.py), or for a
 * coordinator (decima/spark/coordinator/messages.py).
 */
public final class RoundMessage {
  private RoundMessage() {}

  /** The columns of the tables, the edges, and what is given already. */
  public static Map<String, Object> of(Round round) {
    Tables tables = round.tables;
    Map<String, Object> found = new LinkedHashMap<>();
    found.put("slots", tables.slots);
    found.put("time_ms", tables.timeMs);
    found.put("last_arrival_ms", tables.lastArrivalMs);
    // JSON has no infinity.
    found.put("mean_gap_ms", Double.isInfinite(tables.meanGapMs) ? null : tables.meanGapMs);
    found.put("typical_ms", tables.typicalMs);
    found.put("inflation", tables.inflation);
    found.put("arrival_ms", tables.arrivalMs);
    found.put("work_ms", tables.workMs);
    found.put("remaining_ms", tables.remainingMs);
    found.put("first_stage", tables.firstStage);
    found.put("first_child", tables.graphs.firstChild);
    found.put("children", tables.graphs.children);
    found.put("num_tasks", tables.numTasks);
    found.put("launched", tables.launched);
    found.put("finished", tables.finished);
    found.put("runnable", tables.runnable);
    found.put("mean_ms", tables.meanMs);
    found.put("critical_path_ms", tables.criticalPathMs);
    List<int[]> given = new ArrayList<>();
    for (int stage : round.chosen()) {
      given.add(new int[] {stage, round.limit[tables.job[stage]]});
    }
    found.put("given", given);
    return found;
  }

  private static int whole(Object number) {
    return ((Number) number).intValue();
  }

  /** The work of an application, as one round; null if no job has work. */
  public static Map<String, Object> of(LiveJobs live, Graphs.Cache cache) {
    LiveTables tables = LiveTables.ofApplication(live, cache);
    return tables == null ? null : of(new Round(tables));
  }

  /**
   * Take the actions of an answer.
   *
   * @param actions pairs of a stage's row and a limit.
   * @throws IllegalArgumentException an action is not allowed. Under caps, which the policy does not
   *     observe, it is left out instead, and `others` gives away the slots that are left.
   */
  public static void apply(List<?> actions, Round round, Policy others) {
    for (Object pair : actions) {
      List<?> values = (List<?>) pair;
      Policy.Action action = new Policy.Action(whole(values.get(0)), whole(values.get(1)));
      if (!round.hasCaps() || round.allows(action)) {
        round.assign(action);
      }
    }
    if (round.hasCaps()) {
      round.reopen();
      others.fill(round);
    } else if (round.isOpen()) {
      round.assign(Policy.Action.PASS);
    }
  }
}
