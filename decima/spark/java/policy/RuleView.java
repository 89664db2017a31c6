package decima.policy;

/** Features of the scoring rule (decima/heuristics/es_rule.py) in a round. */
final class RuleView {
  private static final double LEAST_WORK_MS = 1.0;
  private static final double TYPICAL_SLOTS = 50.0;
  private static final double LEAST = 0.01;
  private static final double MOST = 8.0;

  private final Round seen;
  private final Tables tables;
  /** remaining work of a job, mean over jobs */
  private final double meanMs;
  private final double share;
  private final double typicalMs;
  private final double jobs;
  private final double executors;
  private final double quiet;

  RuleView(Round seen) {
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

  /** Fill in what one more slot for the stage would mean when its job was given `given` just now. */
  void describe(int stage, int given, double[] features) {
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
  }

  /** 0.5 log of the ratio; 0 where there is nothing to compare with. */
  private static double halfLog(double amount, double reference) {
    return reference <= 0.0 ? 0.0 : 0.5 * Math.log(Math.max(LEAST, amount / reference));
  }
}
