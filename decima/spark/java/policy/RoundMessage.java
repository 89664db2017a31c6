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
    Map<String, Object> message = new LinkedHashMap<>();
    message.put("slots", tables.slots);
    message.put("time_ms", tables.timeMs);
    message.put("last_arrival_ms", tables.lastArrivalMs);
    // JSON has no infinity.
    message.put("mean_gap_ms", Double.isInfinite(tables.meanGapMs) ? null : tables.meanGapMs);
    message.put("typical_ms", tables.typicalMs);
    message.put("inflation", tables.inflation);
    message.put("arrival_ms", tables.arrivalMs);
    message.put("work_ms", tables.workMs);
    message.put("remaining_ms", tables.remainingMs);
    message.put("first_stage", tables.firstStage);
    message.put("first_child", tables.graphs.firstChild);
    message.put("children", tables.graphs.children);
    message.put("num_tasks", tables.numTasks);
    message.put("launched", tables.launched);
    message.put("finished", tables.finished);
    message.put("runnable", tables.runnable);
    message.put("mean_ms", tables.meanMs);
    message.put("critical_path_ms", tables.criticalPathMs);
    List<int[]> given = new ArrayList<>();
    for (int stage : round.chosen()) {
      given.add(new int[] {stage, round.limit[tables.job[stage]]});
    }
    message.put("given", given);
    return message;
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
