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
  private static final double LEAST_WORK_MS = 1.0;
  private static final double TYPICAL_SLOTS = 50.0;
  /** of a ratio in a feature */
  private static final double LEAST = 0.01;
  private static final double MOST = 8.0;

  private final double[] weights;

  /** @param weights in the order of the names. */
  ScoringRule(double[] weights) {
    this.weights = weights;
  }

  /** Names of the parameters. */
  static List<String> parameters() {
    List<String> names = new ArrayList<>();
    for (int unit = 0; unit < HIDDEN; unit++) {
      for (String feature : FEATURES) {
        names.add(feature + "_" + unit);
      }
      names.add("bias_" + unit);
      names.add("gate_" + unit);
      names.add("score_" + unit);
    }
    names.add("gate_bias");
    return names;
  }

  @Override
  public String name() {
    return NAME;
  }

  @Override
  public Action decide(Round seen) {
    Candidate candidate = new Candidate(seen);
    int best = -1;
    double bestScore = Double.NEGATIVE_INFINITY;
    double second = Double.NEGATIVE_INFINITY;
    for (int job = 0; job < seen.tables.jobs(); job++) {
      int stage = seen.held[job] >= seen.tables.slots ? -1 : seen.onCriticalPath(job);
      if (stage < 0) {
        continue;
      }
      candidate.score(stage, 0);
      if (seen.held[job] > 0 && candidate.gate <= 0.0) {
        continue;
      }
      if (best < 0 || candidate.score > bestScore) {
        second = bestScore;
        bestScore = candidate.score;
        best = stage;
      } else if (candidate.score > second) {
        second = candidate.score;
      }
    }
    if (best < 0) {
      return Action.PASS;
    }
    // One slot more, and more while gate and score allow it.
    int held = seen.held[seen.tables.job[best]];
    int most = Math.min(Math.min(seen.onOffer, seen.demand(best)), seen.tables.slots - held);
    int given = 1;
    for (; given < most; given++) {
      candidate.score(best, given);
      if (candidate.gate <= 0.0 || candidate.score <= second) {
        break;
      }
    }
    return new Action(best, held + given);
  }

  /** One more slot for a stage in a round: its features, and the rule's gate and score. */
  private final class Candidate {
    private final Round seen;
    private final Tables tables;
    /** remaining work of a job, mean over jobs */
    private final double meanMs;
    private final double share;
    private final double typicalMs;
    private final double jobs;
    private final double executors;
    private final double quiet;
    private final double[] features = new double[INPUTS];
    /** above 0: the job may take the slot */
    double gate;
    double score;

    Candidate(Round seen) {
      this.seen = seen;
      tables = seen.tables;
      double totalMs = 0.0;
      for (int job = 0; job < tables.jobs(); job++) {
        totalMs += tables.remainingMs[job];
      }
      meanMs = totalMs / Math.max(1, tables.jobs());
      share = (double) tables.slots / tables.jobs();
      typicalMs = Math.max(tables.typicalMs, LEAST_WORK_MS);
      jobs = 1.0 + 0.5 * Math.log((double) Math.max(1, tables.jobs()) / tables.slots);
      executors = 0.5 * Math.log(tables.slots / TYPICAL_SLOTS);
      quiet = 0.5 * halfLog((tables.timeMs - tables.lastArrivalMs) * tables.slots, meanMs);
    }

    /** Describe and score one more slot for the stage, whose job was given `given` just now. */
    void score(int stage, int given) {
      int job = tables.job[stage];
      int held = seen.held[job] + given + 1;
      int tasks = seen.demand(stage) - given;
      double remainingMs = tables.remainingMs[job];
      double blockingMs = tables.meanMs[stage] * tables.slots / typicalMs;
      int jobsWithLess = 0;
      for (double otherMs : tables.remainingMs) {
        jobsWithLess += otherMs < remainingMs ? 1 : 0;
      }
      features[0] = halfLog(remainingMs, meanMs);
      features[1] = 2.0 * jobsWithLess / tables.jobs() - 1.0;
      features[2] = Math.log(held / share);
      features[3] = (double) held / tables.slots;
      features[4] = (double) Math.max(0, seen.local[job] - given) / (seen.onOffer - given);
      features[5] = 0.0; // no single stage's slots open a round of a session
      features[6] = 0.5 * Math.log(Math.max(1, tasks) / share);
      features[7] = jobs;
      features[8] = halfLog(remainingMs, tables.criticalPathMs[stage] * share);
      features[9] = tables.runnable[stage] ? 1.0 : 0.0;
      features[10] = 1.0; // a session
      features[11] = halfLog(0.0, tables.meanMs[stage]); // nothing moves
      features[12] = executors;
      features[13] = quiet;
      features[14] = 0.25 * Math.log(Math.max(LEAST, Math.min(MOST, blockingMs)));
      features[15] = 2.0 * tables.inflation;
      features[16] = 0.0; // no slot is reserved
      features[17] = (double) (seen.onOffer - given - 1) / tables.slots;
      gate = weights[SIZE - 1];
      score = 0.0;
      for (int unit = 0; unit < HIDDEN; unit++) {
        int first = unit * UNIT;
        double total = weights[first + INPUTS];
        for (int index = 0; index < INPUTS; index++) {
          total += weights[first + index] * features[index];
        }
        double active = tanh(total);
        gate += weights[first + INPUTS + 1] * active;
        score += weights[first + INPUTS + 2] * active;
      }
    }
  }

  /** 0.5 log of the ratio; 0 where there is nothing to compare with. */
  private static double halfLog(double amount, double reference) {
    return reference <= 0.0 ? 0.0 : 0.5 * Math.log(Math.max(LEAST, amount / reference));
  }

  /** The quotient of polynomials that the weights were fitted with; within 0.024 of tanh. */
  private static double tanh(double value) {
    double bounded = Math.max(-3.0, Math.min(3.0, value));
    double square = bounded * bounded;
    return bounded * (27.0 + square) / (27.0 + 9.0 * square);
  }
}
