package decima.policy;

/**
 * What is typical of a session's jobs, the units of the network's columns (decima/agent/scales.py). It
 * is learned slowly, as decima/spark/loading.py does: one large job must not make itself usual.
 */
final class Units {
  private static final double LEARNED = 0.1;

  double taskMs = Double.NaN;
  double workMs = Double.NaN;

  /** Take in that the jobs or their graphs have changed. */
  void note(Graphs now) {
    boolean isFirst = Double.isNaN(taskMs);
    taskMs = isFirst ? now.taskMs : (1.0 - LEARNED) * taskMs + LEARNED * now.taskMs;
    workMs = isFirst ? now.workMs : (1.0 - LEARNED) * workMs + LEARNED * now.workMs;
  }
}
