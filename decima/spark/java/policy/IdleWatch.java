package decima.policy;

/**
 * Detects idle slots that are a fault of the policy: more stand idle than strict fair would leave,
 * for as long as the bound.
 */
final class IdleWatch {
  private final double boundMs;
  private double dueMs = Double.NaN;

  IdleWatch(double boundMs) {
    this.boundMs = boundMs;
  }

  /** Whether slots have stood idle too long; then not again for another such time. */
  boolean isFault(LiveJobs live, LiveGraphs graphs, long idleMs, int idleSlots) {
    if (idleMs < boundMs / 2 || idleSlots - idleUnderStrictFair(live, graphs) <= 0) {
      dueMs = Double.NaN;
      return false;
    }
    if (Double.isNaN(dueMs)) {
      dueMs = live.timeMs + boundMs / 2; // what has just come up, the policy may still use
    }
    if (live.timeMs < dueMs) {
      return false;
    }
    dueMs = live.timeMs + boundMs;
    return true;
  }

  /** Slots that strict fair would leave idle though a task waits. */
  private static int idleUnderStrictFair(LiveJobs live, LiveGraphs graphs) {
    LiveTables found = LiveTables.of(live, graphs);
    if (found == null) {
      return 0;
    }
    Round round = new Round(found.tables, found.caps);
    new StrictFair().fill(round);
    return Math.min(round.unused(), round.tasksLeft());
  }
}
