package decima.policy;

import decima.spark.Lines;
import java.io.File;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;

/** For tests: answers each line of JSON, a round, with what is decided in the JVM. */
public final class Decide {
  private static Policy policy = null;
  private static String name = null;

  public static void main(String[] arguments) throws Exception {
    Lines.answer(Decide::answer);
  }

  /** The actions or the logits; of a policy that cannot be used, the reason. */
  private static Object answer(Map<String, Object> question) {
    String asked = (String) question.get("policy");
    String file = (String) question.get("parameters");
    if (!asked.equals(name)) {
      try {
        policy = Policies.named(asked, file == null ? null : Policies.content(new File(file)));
        name = asked;
      } catch (IllegalArgumentException refused) {
        return Collections.singletonMap("refused", refused.getMessage());
      }
    }
    Map<?, ?> given = (Map<?, ?>) question.get("tables");
    return question.containsKey("logits")
        ? logits((LearnedPolicy) policy, given)
        : actions(policy, given, question);
  }

  /** All actions of one round: (stage, limit). */
  private static List<List<Integer>> actions(Policy policy, Map<?, ?> given, Map<?, ?> asked) {
    Round round = new Round(tables(given, asked));
    List<List<Integer>> found = new ArrayList<>();
    while (round.isOpen()) {
      Policy.Action action = policy.decide(round);
      found.add(java.util.Arrays.asList(action.stage, action.limit));
      round.assign(action);
    }
    return found;
  }

  /** Of the first plan of a round: of stages, of the end, and of the limits of each job. */
  private static List<Object> logits(LearnedPolicy policy, Map<?, ?> given) {
    Round round = new Round(tables(given, Collections.emptyMap()));
    policy.plan(round);
    List<List<Float>> limits = new ArrayList<>();
    for (int job = 0; job < round.tables.jobs(); job++) {
      int count = policy.scoreLimits(job);
      limits.add(new ArrayList<>());
      for (int row = 0; row < count; row++) {
        limits.get(job).add(policy.limit[row]);
      }
    }
    double[] stages = java.util.Arrays.copyOf(policy.stage, policy.columns.numOpen);
    return java.util.Arrays.asList(stages, policy.end, limits);
  }

  private static Tables tables(Map<?, ?> given, Map<?, ?> asked) {
    Tables found = new Tables(whole(given.get("first_stage")));
    found.timeMs = ((Number) given.get("time_ms")).doubleValue();
    found.lastArrivalMs = ((Number) given.get("last_arrival_ms")).doubleValue();
    found.meanGapMs = ((Number) given.get("mean_gap_ms")).doubleValue();
    found.typicalMs = ((Number) given.get("typical_ms")).doubleValue();
    found.inflation = ((Number) given.get("inflation")).doubleValue();
    found.slots = ((Number) given.get("slots")).intValue();
    copy(numbers(given.get("arrival_ms")), found.arrivalMs);
    copy(numbers(given.get("remaining_ms")), found.remainingMs);
    copy(numbers(given.get("work_ms")), found.workMs);
    double[] units = numbers(given.get("units"));
    if (units.length > 0) {
      int[] firstChild = whole(given.get("first_child"));
      int[] children = whole(given.get("children"));
      found.graphs =
          new Graphs(found.firstStage, firstChild, children, units[0], units[1]);
    }
    copy(numbers(given.get("mean_ms")), found.meanMs);
    copy(numbers(given.get("critical_path_ms")), found.criticalPathMs);
    System.arraycopy(whole(given.get("num_tasks")), 0, found.numTasks, 0, found.stages());
    System.arraycopy(whole(given.get("launched")), 0, found.launched, 0, found.stages());
    System.arraycopy(whole(given.get("finished")), 0, found.finished, 0, found.stages());
    int[] runnable = whole(given.get("runnable"));
    for (int stage = 0; stage < runnable.length; stage++) {
      found.runnable[stage] = runnable[stage] == 1;
    }
    if (asked.containsKey("capacity")) {
      found.capacity = whole(asked.get("capacity"));
      List<?> caps = (List<?>) asked.get("caps");
      for (int job = 0; job < caps.size(); job++) {
        found.caps[job] = whole(caps.get(job));
      }
    }
    return found;
  }

  private static void copy(double[] from, double[] to) {
    System.arraycopy(from, 0, to, 0, to.length);
  }

  private static double[] numbers(Object given) {
    List<?> values = given == null ? Collections.emptyList() : (List<?>) given;
    return values.stream().mapToDouble(one -> ((Number) one).doubleValue()).toArray();
  }

  private static int[] whole(Object given) {
    return ((List<?>) given).stream().mapToInt(one -> ((Number) one).intValue()).toArray();
  }
}
