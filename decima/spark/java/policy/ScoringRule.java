package decima.policy;

import java.util.ArrayList;
import java.util.List;

/**
 * The scoring rule (docs/algorithms.md; decima/heuristics/es_rule.py): eighteen numbers describe what one
 * more slot for a job would mean, and one hidden layer makes a gate (may the job take it?) and a score
 * (which job first?) of them. The best score takes slots while its gate stays open and its score above
 * the second; a job that holds none may always take one.
 */
final class ScoringRule implements Policy {
  static final String NAME = "es_rule";
  private static final String[] FEATURES = {
    "work", "rank", "share", "cluster", "local", "source", "tasks", "jobs", "width", "runnable",
    "session", "moving", "executors", "quiet", "blocking", "inflation", "wait", "free"
  };
  private static final int HIDDEN = 14;
  private static final int INPUTS = FEATURES.length;
  /** numbers of a hidden unit: its weights, its bias, its part in the gate and in the score */
  private static final int UNIT = INPUTS + 3;
  /** the last is the gate's bias */
  private static final int SIZE = HIDDEN * UNIT + 1;

  private final double[] weights;

  /** @param weights in the order of the names. */
  ScoringRule(double[] weights) {
    this.weights = weights;
  }

  /** Names of the parameters. */
  static List<String> parameters() {
    List<String> found = new ArrayList<>();
    for (int unit = 0; unit < HIDDEN; unit++) {
      for (String feature : FEATURES) {
        found.add(feature + "_" + unit);
      }
      found.add("bias_" + unit);
      found.add("gate_" + unit);
      found.add("score_" + unit);
    }
    found.add("gate_bias");
    return found;
  }

  @Override
  public String name() {
    return NAME;
  }

  @Override
  public Action decide(Round seen) {
    RuleView view = new RuleView(seen);
    Scored scored = new Scored();
    int best = -1;
    double bestScore = Double.NEGATIVE_INFINITY;
    double second = Double.NEGATIVE_INFINITY;
    for (int job = 0; job < seen.tables.jobs(); job++) {
      int stage = seen.held[job] >= seen.tables.slots ? -1 : seen.onCriticalPath(job);
      if (stage < 0) {
        continue;
      }
      view.describe(stage, 0, scored.features);
      score(scored);
      if (seen.held[job] > 0 && scored.gate <= 0.0) {
        continue;
      }
      if (best < 0 || scored.score > bestScore) {
        second = bestScore;
        bestScore = scored.score;
        best = stage;
      } else if (scored.score > second) {
        second = scored.score;
      }
    }
    if (best < 0) {
      return Action.PASS;
    }
    return new Action(best, extended(seen, view, best, second, scored));
  }

  /** The limit for the stage's job: one slot more, and more while gate and score allow it. */
  private int extended(
      Round seen, RuleView view, int stage, double second, Scored scored) {
    int held = seen.held[seen.tables.job[stage]];
    int most = Math.min(Math.min(seen.onOffer, seen.demand(stage)), seen.tables.slots - held);
    int given = 1;
    while (given < most) {
      view.describe(stage, given, scored.features);
      score(scored);
      if (scored.gate <= 0.0 || scored.score <= second) {
        break;
      }
      given += 1;
    }
    return held + given;
  }

  /** Of one candidate: what describes it, and what the rule makes of that. */
  private static final class Scored {
    final double[] features = new double[INPUTS];
    double gate;
    double score;
  }

  private void score(Scored scored) {
    scored.gate = weights[SIZE - 1];
    scored.score = 0.0;
    for (int unit = 0; unit < HIDDEN; unit++) {
      int first = unit * UNIT;
      double total = weights[first + INPUTS];
      for (int index = 0; index < INPUTS; index++) {
        total += weights[first + index] * scored.features[index];
      }
      double active = tanh(total);
      scored.gate += weights[first + INPUTS + 1] * active;
      scored.score += weights[first + INPUTS + 2] * active;
    }
  }

  /** The quotient of polynomials that the weights were fitted with; within 0.024 of tanh. */
  private static double tanh(double value) {
    double bounded = Math.max(-3.0, Math.min(3.0, value));
    double square = bounded * bounded;
    return bounded * (27.0 + square) / (27.0 + 9.0 * square);
  }
}
