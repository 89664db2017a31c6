package decima.policy;

/**
 * The edges between the stages of a session; another object whenever a job, a stage or an edge came or
 * went. Children come after one another by row.
 */
public final class Graphs {
  /** (J + 1,) first row of each job's stages */
  final int[] firstStage;
  /** (S + 1,) first of each stage's children */
  final int[] firstChild;
  /** rows of stages */
  final int[] children;
  /** mean duration of a task of these jobs, when they were last other jobs or stages */
  final double taskMs;
  /** mean work of these jobs, likewise */
  final double workMs;

  public Graphs(
      int[] firstStage, int[] firstChild, int[] children, double taskMs, double workMs) {
    this.firstStage = firstStage;
    this.firstChild = firstChild;
    this.children = children;
    this.taskMs = taskMs;
    this.workMs = workMs;
  }
}
