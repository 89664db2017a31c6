package decima.policy;

import decima.network.Embeddings;
import decima.network.Network;

/** Columns NODE of decima/agent/columns.py, of every stage; they are written where they have changed. */
final class NodeColumns {
  /** numbers that the columns of a stage are computed from */
  private static final int KNOWN = 6;
  private static final int SIZE = Network.columns("NODE").size();

  private final Columns units;
  /** (S, KNOWN) */
  private double[] known = {};
  private final double[] numbers = new double[KNOWN];
  private final float[] columns = new float[SIZE];

  /** @param units has what is typical of the session. */
  NodeColumns(Columns units) {
    this.units = units;
  }

  /** Treat every stage as new. */
  void forget(int stages) {
    if (known.length < stages * KNOWN) {
      known = new double[2 * stages * KNOWN];
    }
    java.util.Arrays.fill(known, Double.NaN);
  }

  /** Write what is new of a job's stages to `kept.x`; whether anything is. */
  boolean update(Round seen, int job, Embeddings kept) {
    Tables tables = seen.tables;
    boolean differs = false;
    for (int row = tables.firstStage[job]; row < tables.firstStage[job + 1]; row++) {
      numbers[0] = tables.numTasks[row];
      numbers[1] = tables.launched[row];
      numbers[2] = seen.covered[row] - tables.finished[row];
      numbers[3] = tables.runnable[row] ? 1.0 : 0.0;
      numbers[4] = tables.meanMs[row];
      numbers[5] = tables.slots;
      if (isNew(row)) {
        differs |= describe(kept.x[row]);
      }
    }
    return differs;
  }

  private boolean isNew(int row) {
    boolean differs = false;
    int first = row * KNOWN;
    for (int column = 0; column < KNOWN; column++) {
      if (known[first + column] != numbers[column]) {
        known[first + column] = numbers[column];
        differs = true;
      }
    }
    return differs;
  }

  private boolean describe(float[] x) {
    double left = rounded(numbers[0] - numbers[1]);
    double slots = numbers[5];
    columns[0] = (float) Columns.log1p(4.0 * left / slots);
    columns[1] = (float) Columns.log2(numbers[4] / units.taskMs);
    columns[2] = (float) (numbers[2] / slots);
    columns[3] = (float) Columns.log1p(8.0 * left * numbers[4] / units.workMs);
    columns[4] = (float) numbers[3];
    columns[5] = 0.0f; // all slots are alike
    boolean differs = false;
    for (int column = 0; column < SIZE; column++) {
      if (x[column] != columns[column]) {
        x[column] = columns[column];
        differs = true;
      }
    }
    return differs;
  }

  /** The count to the nearest quarter power of two (of count + 1), so that it changes seldom. */
  private static double rounded(double count) {
    if (count <= 0.0) {
      return 0.0;
    }
    return Math.pow(2.0, Math.rint(4.0 * Math.log(1.0 + count) / Columns.LOG_2) / 4.0) - 1.0;
  }
}
