package decima.policy;

/**
 * Shortest remaining work first, under the limit ceil(c N J^-q (R / mean R)^p) of each job: N slots,
 * J jobs, R the work that the job has left (`tuned_srw`; decima/heuristics/tuned_srw.py).
 */
final class ShortestRemaining implements Policy {
  static final String NAME = "tuned_srw";
  static final String[] PARAMETERS = {"factor", "jobs_power", "work_power"};
  static final double[] DEFAULTS = {1.5, 1.0, 0.2};
  private static final double FLOOR_MS = 1.0;

  private final double factor;
  private final double jobsPower;
  private final double workPower;

  /** @param values of `PARAMETERS`, in that order. */
  ShortestRemaining(double[] values) {
    factor = values[0];
    jobsPower = values[1];
    workPower = values[2];
  }

  @Override
  public String name() {
    return NAME;
  }

  @Override
  public Action decide(Round seen) {
    Tables tables = seen.tables;
    int jobs = tables.jobs();
    double meanMs = 0.0;
    for (int job = 0; job < jobs; job++) {
      meanMs += Math.max(FLOOR_MS, tables.remainingMs[job]) / jobs;
    }
    double common = factor * tables.slots / Math.pow(jobs, jobsPower);
    int best = -1;
    int bestLimit = 0;
    double leastMs = 0.0;
    for (int job = 0; job < jobs; job++) {
      double leftMs = Math.max(FLOOR_MS, tables.remainingMs[job]);
      if (seen.openStages[job] == 0 || (best >= 0 && leftMs >= leastMs)) {
        continue;
      }
      double wanted = Math.ceil(common * Math.pow(leftMs / meanMs, workPower));
      int limit = (int) Math.min(tables.slots, Math.max(1.0, wanted));
      if (seen.held[job] >= limit) {
        continue;
      }
      best = seen.onCriticalPath(job);
      bestLimit = limit;
      leastMs = leftMs;
    }
    return best < 0 ? Action.PASS : new Action(best, bestLimit);
  }
}
