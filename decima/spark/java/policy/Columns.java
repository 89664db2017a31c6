package decima.policy;

import decima.network.Network;
import java.util.Arrays;

/**
 * Columns JOB, STAGE and CLUSTER of decima/agent/columns.py, as decima/agent/feature_kernels.py computes
 * them for a session: all slots are alike, nothing moves, and open stages are runnable.
 */
final class Columns {
  static final double LOG_2 = Math.log(2.0);
  private static final double LEAST_WORK_MS = 1.0;
  private static final double TYPICAL_SLOTS = 50.0;
  private static final double LONGEST = 1.0; // bound of "age" and "quiet"
  private static final int JOB = Network.columns("JOB").size();
  private static final int STAGE = Network.columns("STAGE").size();
  private static final int CLUSTER = Network.columns("CLUSTER").size();
  /** columns of STAGE that the last columns of JOB repeat for its leading stage */
  private static final int[] LEADING =
      Network.columns("LEADING").stream().mapToInt(Network.columns("STAGE")::indexOf).toArray();
  private static final int FIRST_LEADING = JOB - LEADING.length;

  /** part of a change of the jobs by which `taskMs` and `workMs` follow it */
  private static final double LEARNED = 0.1;

  /** typical duration of a task, and work of a job: units of the columns (decima/agent/scales.py) */
  double taskMs = Double.NaN;
  double workMs = Double.NaN;
  /** (J, JOB) */
  float[][] jobX = {};
  /** (O, STAGE) of the stages that may be chosen */
  float[][] stageX = {};
  final float[] clusterX = new float[CLUSTER];
  /** (O,) row of the stage */
  int[] openStage = {};
  /** (O,) its job */
  int[] openJob = {};
  /** (O,) tasks without a slot */
  int[] demand = {};
  /** (J + 1,) first of each job's stages that may be chosen */
  int[] firstOpen = {};
  /** (J,) slots that the job holds, and slots on offer that its tasks are on */
  int[] held = {};
  int[] local = {};
  /** (J,) slots that caps leave the job */
  int[] most = {};
  int onOffer;
  /** O */
  int numOpen;

  private Round seen;
  private Tables tables;
  /** (J,) the longest critical path of the job's open stages */
  private double[] pathMs = {};
  private double[] height = {};
  private int[] less = {};
  private final Order order = new Order();
  private double slots;
  private double jobs;
  private double typicalMs;

  static double log2(double ratio) {
    return Math.log(Math.min(Math.max(ratio, 1.0 / 4096), 4096.0)) / LOG_2 / 4.0;
  }

  static double log1p(double value) {
    return Math.log(1.0 + value);
  }

  /**
   * Adapt the units to other jobs or graphs: slowly, as decima/spark/loading.py does, so that one
   * large job does not make itself usual.
   */
  void learnUnits(Graphs graphs) {
    boolean isFirst = Double.isNaN(taskMs);
    taskMs = isFirst ? graphs.taskMs : (1.0 - LEARNED) * taskMs + LEARNED * graphs.taskMs;
    workMs = isFirst ? graphs.workMs : (1.0 - LEARNED) * workMs + LEARNED * graphs.workMs;
  }

  /** Describe the decision that is due; array entries beyond J and O are undefined. */
  void describe(Round seen) {
    this.seen = seen;
    tables = seen.tables;
    slots = tables.slots;
    jobs = tables.jobs();
    typicalMs = Math.max(tables.typicalMs, LEAST_WORK_MS);
    onOffer = seen.onOffer;
    makeRoom();
    numOpen = 0;
    for (int job = 0; job < tables.jobs(); job++) {
      held[job] = seen.held[job];
      local[job] = seen.local[job];
      most[job] = seen.room(job);
      firstOpen[job] = numOpen;
      describeStages(job);
    }
    firstOpen[tables.jobs()] = numOpen;
    countLess();
    double totalMs = describeCluster();
    for (int job = 0; job < tables.jobs(); job++) {
      describeJob(job, totalMs);
    }
    clusterX[14] = (float) mean(jobX, 9, tables.jobs());
    clusterX[15] = (float) deviation(jobX, 9, tables.jobs());
    clusterX[16] = (float) deviation(stageX, 3, numOpen);
  }

  private void makeRoom() {
    int open = 0;
    for (int job = 0; job < tables.jobs(); job++) {
      open += seen.openStages[job];
    }
    if (stageX.length < open) {
      stageX = new float[2 * open][STAGE];
      openStage = new int[2 * open];
      openJob = new int[2 * open];
      demand = new int[2 * open];
    }
    if (jobX.length < tables.jobs()) {
      int room = 2 * tables.jobs();
      jobX = new float[room][JOB];
      firstOpen = new int[room + 1];
      held = new int[room];
      local = new int[room];
      most = new int[room];
      pathMs = new double[room];
      height = new double[room];
      less = new int[room];
      order.makeRoom(room);
    }
  }

  // --- stages --------------------------------------------------------------------------------

  private void describeStages(int job) {
    double longestMs = 1e-3;
    int wanted = 0;
    int first = numOpen;
    int leading = first;
    boolean mayChoose = seen.openStages[job] > 0 && held[job] < tables.slots;
    int last = mayChoose ? tables.firstStage[job + 1] : tables.firstStage[job];
    for (int stage = tables.firstStage[job]; stage < last; stage++) {
      int tasks = seen.open[stage] ? seen.demand(stage) : 0;
      if (tasks <= 0) {
        continue;
      }
      wanted += tasks;
      longestMs = Math.max(longestMs, tables.criticalPathMs[stage]);
      openStage[numOpen] = stage;
      openJob[numOpen] = job;
      demand[numOpen] = tasks;
      describeStage(stage, job, tasks, stageX[numOpen]);
      if (tables.criticalPathMs[stage] > tables.criticalPathMs[openStage[leading]]) {
        leading = numOpen;
      }
      numOpen += 1;
    }
    for (int row = first; row < numOpen; row++) {
      stageX[row][5] = (float) (tables.criticalPathMs[openStage[row]] / longestMs);
    }
    pathMs[job] = longestMs;
    float[] x = jobX[job];
    x[10] = (float) log1p(wanted / slots);
    for (int place = 0; place < LEADING.length; place++) {
      x[FIRST_LEADING + place] = numOpen > first ? stageX[leading][LEADING[place]] : 0.0f;
    }
  }

  private void describeStage(int stage, int job, int tasks, float[] x) {
    double meanMs = Math.max(tables.meanMs[stage], 1e-3);
    double remainingMs = Math.max(tables.remainingMs[job], 1e-6);
    x[0] = (float) log1p(4.0 * tasks / slots);
    x[1] = (float) Math.min(1.0, tasks / Math.max(1.0, onOffer));
    x[2] = 1.0f; // runnable
    x[3] = (float) log2(tables.meanMs[stage] / taskMs);
    x[4] = (float) (log1p(tables.criticalPathMs[stage] / (4.0 * taskMs)) / 4.0);
    x[6] = (float) Math.min(1.0, tasks * tables.meanMs[stage] / remainingMs);
    x[7] = 0.0f; // nothing moves
    x[8] = (float) log2(tasks / (slots / jobs));
    x[9] = (float) log2(meanMs * slots / typicalMs);
    x[10] = 0.0f; // it waits for no other stage
    x[11] = 0.0f; // all slots are alike
    x[12] = 0.0f;
  }

  // --- jobs ----------------------------------------------------------------------------------

  /** Fill `less`; of two jobs that have as much work left none has less. */
  private void countLess() {
    for (int job = 0; job < tables.jobs(); job++) {
      height[job] = -tables.remainingMs[job];
      order.index[job] = job;
    }
    order.sort(height, tables.jobs());
    int count = 0;
    for (int place = 0; place < tables.jobs(); place++) {
      if (place > 0 && height[order.index[place]] < height[order.index[place - 1]]) {
        count = place;
      }
      less[order.index[place]] = count;
    }
  }

  private void describeJob(int job, double totalMs) {
    float[] x = jobX[job];
    double remainingMs = Math.max(tables.remainingMs[job], 0.0);
    double ageMs = Math.max(tables.timeMs - tables.arrivalMs[job], 0.0);
    x[0] = (float) (held[job] / slots);
    x[1] = (float) log2((held[job] + 0.5) * jobs / slots);
    x[2] = held[job] == 0 ? 1.0f : 0.0f;
    x[3] = (float) (local[job] / Math.max(1.0, onOffer));
    x[4] = 0.0f; // no single job's slots open a round of a session
    x[5] = (float) log2(remainingMs / workMs);
    x[6] = (float) log2(remainingMs * jobs / Math.max(totalMs, 1e-6));
    x[7] = (float) (less[job] / Math.max(1.0, jobs - 1.0));
    x[8] = (float) (remainingMs / Math.max(tables.workMs[job], 1e-6));
    x[9] = (float) Math.min(log1p(ageMs * slots / workMs) / 4.0, LONGEST);
    x[11] = (float) log2(remainingMs / typicalMs);
    x[12] = (float) log2(remainingMs * jobs / (pathMs[job] * slots));
  }

  // --- the cluster ---------------------------------------------------------------------------

  /** Fill `clusterX`, the means over jobs excepted; the work not launched. */
  private double describeCluster() {
    double totalMs = 0.0;
    int allHeld = 0;
    for (int job = 0; job < tables.jobs(); job++) {
      totalMs += Math.max(tables.remainingMs[job], 0.0);
      allHeld += held[job];
    }
    double quietMs = Math.max(tables.timeMs - tables.lastArrivalMs, 0.0);
    float[] x = clusterX;
    Arrays.fill(x, 0.0f);
    x[0] = (float) (onOffer / slots);
    x[1] = (float) log2(onOffer);
    x[2] = (float) (log2(jobs / slots) + 0.5);
    x[3] = (float) log2(jobs);
    x[4] = (float) log2(0.0625 + totalMs / workMs);
    x[5] = (float) log2(totalMs / Math.max(1.0, jobs) / typicalMs);
    x[6] = (float) (allHeld / slots);
    x[7] = 1.0f; // a session
    x[9] = (float) log2(slots / TYPICAL_SLOTS);
    x[11] = (float) log2(0.0); // nothing moves
    x[12] = (float) Math.min(log1p(quietMs * slots / workMs) / 4.0, LONGEST);
    x[13] = (float) log2(tables.meanGapMs * slots / workMs);
    x[17] = (float) tables.inflation;
    return totalMs;
  }

  private static double mean(float[][] table, int column, int count) {
    double total = 0.0;
    for (int row = 0; row < count; row++) {
      total += table[row][column];
    }
    return total / Math.max(1.0, count);
  }

  /** Of the differences from the mean: those of squares would leave noise where all are equal. */
  private static double deviation(float[][] table, int column, int count) {
    double mean = mean(table, column, count);
    double squares = 0.0;
    for (int row = 0; row < count; row++) {
      double difference = table[row][column] - mean;
      squares += difference * difference;
    }
    return Math.sqrt(squares / Math.max(1.0, count));
  }
}
