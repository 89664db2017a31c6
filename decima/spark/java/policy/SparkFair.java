package decima.policy;

/**
 * Spark's FAIR with one pool for each job: each free slot goes to the job that holds the fewest, so
 * shares are max-min fair and no slot stays idle while a job wants one.
 */
final class SparkFair implements Policy {
  static final String NAME = "spark_fair";

  @Override
  public String name() {
    return NAME;
  }

  @Override
  public Action decide(Round seen) {
    int level = waterLevel(seen);
    if (needed(seen, level) < seen.onOffer) {
      // Slots left over by rounding go to the poorest jobs in turn, the oldest first.
      level += 1;
    }
    int best = -1;
    int fewest = 0;
    for (int job = 0; job < seen.tables.jobs(); job++) {
      if (seen.held[job] >= level || (best >= 0 && seen.held[job] >= fewest)) {
        continue;
      }
      int stage = seen.onCriticalPath(job);
      if (stage >= 0) {
        best = stage;
        fewest = seen.held[job];
      }
    }
    return best < 0 ? Action.PASS : new Action(best, Math.min(seen.tables.slots, level));
  }

  /** The largest level to which what is on offer raises all jobs that can use it. */
  private static int waterLevel(Round seen) {
    int low = 0;
    int high = seen.tables.slots;
    while (low < high) {
      int middle = (low + high + 1) / 2;
      if (needed(seen, middle) <= seen.onOffer) {
        low = middle;
      } else {
        high = middle - 1;
      }
    }
    return low;
  }

  /** Slots that bring every job up to `level`, as far as its open stages can use them. */
  private static int needed(Round seen, int level) {
    int slots = 0;
    for (int job = 0; job < seen.tables.jobs(); job++) {
      if (seen.openStages[job] == 0 || seen.held[job] >= level) {
        continue;
      }
      int usable = 0;
      for (int stage = seen.tables.firstStage[job];
          stage < seen.tables.firstStage[job + 1];
          stage++) {
        if (seen.open[stage]) {
          usable += seen.demand(stage);
        }
      }
      slots += Math.min(usable, level - seen.held[job]);
    }
    return slots;
  }
}
