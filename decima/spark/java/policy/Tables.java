package decima.policy;

/**
 * A session as policies see it: J jobs by arrival with S stages, each job's in one run of rows. The
 * columns are those of the simulator's tables of the same names (spark_sim/tables.py).
 */
public class Tables {
  // of the session
  public double timeMs;
  /** when a job last arrived */
  public double lastArrivalMs;
  /** between the jobs so far; infinity before the second */
  public double meanGapMs;
  /** work of a job, geometric mean over all so far */
  public double typicalMs;
  /** log of how much longer tasks take in a job that holds all slots */
  public double inflation;
  public int slots;
  /** edges between the stages */
  public Graphs graphs;
  /** of each cap that users have set: the most slots that the jobs under it may hold together */
  public int[] capacity = {};

  // (J,)
  public final double[] arrivalMs;
  /** work over all tasks of the stages that policies see */
  public final double[] workMs;
  /** work over the tasks that no slot has run yet */
  public final double[] remainingMs;
  /** first row of each job's stages; (J + 1,), the last is S */
  public final int[] firstStage;

  /** (J,) the caps that the job is under, as indices of `capacity` */
  public final int[][] caps;

  // (S,)
  public final int[] job;
  public final int[] numTasks;
  public final int[] launched;
  public final int[] finished;
  /** all parents complete */
  public final boolean[] runnable;
  /** mean duration of a task */
  public final double[] meanMs;
  /** longest sum of mean durations on a path that begins at the stage */
  public final double[] criticalPathMs;

  /** @param firstStage as the field; it is kept. */
  public Tables(int[] firstStage) {
    int jobs = firstStage.length - 1;
    int stages = firstStage[jobs];
    this.firstStage = firstStage;
    arrivalMs = new double[jobs];
    workMs = new double[jobs];
    remainingMs = new double[jobs];
    caps = new int[jobs][0];
    job = new int[stages];
    for (int number = 0; number < jobs; number++) {
      java.util.Arrays.fill(job, firstStage[number], firstStage[number + 1], number);
    }
    numTasks = new int[stages];
    launched = new int[stages];
    finished = new int[stages];
    runnable = new boolean[stages];
    meanMs = new double[stages];
    criticalPathMs = new double[stages];
  }

  public int jobs() {
    return arrivalMs.length;
  }

  public int stages() {
    return job.length;
  }
}
