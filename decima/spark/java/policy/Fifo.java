package decima.policy;

/** Spark's FIFO: jobs by arrival, each with as many slots as it can use. */
final class Fifo implements Policy {
  static final String NAME = "fifo";

  @Override
  public String name() {
    return NAME;
  }

  @Override
  public Action decide(Round seen) {
    for (int job = 0; job < seen.tables.jobs(); job++) {
      int stage = seen.onCriticalPath(job);
      if (stage >= 0) {
        return new Action(stage, seen.tables.slots);
      }
    }
    return Action.PASS;
  }
}
