package decima.policy;

/** Every job at most slots / jobs, rounded up; those with slots on offer first, then by arrival. */
final class StrictFair implements Policy {
  static final String NAME = "strict_fair";

  @Override
  public String name() {
    return NAME;
  }

  @Override
  public Action decide(Round seen) {
    int jobs = seen.tables.jobs();
    int share = (int) Math.ceil((double) seen.tables.slots / Math.max(1, jobs));
    int fallback = -1;
    for (int job = 0; job < jobs; job++) {
      if (seen.openStages[job] == 0
          || seen.held[job] >= share
          || (fallback >= 0 && seen.local[job] == 0)) {
        continue;
      }
      int stage = seen.onCriticalPath(job);
      if (seen.local[job] > 0) {
        return new Action(stage, share);
      }
      fallback = stage;
    }
    return fallback < 0 ? Action.PASS : new Action(fallback, share);
  }
}
