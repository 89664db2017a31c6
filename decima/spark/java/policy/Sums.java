package decima.policy;

/** Sums that round as those of the Python side do, so that ties are ties on both. */
final class Sums {
  private static final int UNROLLED = 8;
  private static final int BLOCK = 128;

  private Sums() {}

  /** As numpy's `add.reduceat` of one run: the first value, and the pairwise sum of the others. */
  static double ofRun(double[] values) {
    return values.length == 1 ? values[0] : values[0] + pairwise(values, 1, values.length - 1);
  }

  private static double pairwise(double[] values, int first, int count) {
    if (count > BLOCK) {
      int half = count / 2;
      half -= half % UNROLLED;
      return pairwise(values, first, half) + pairwise(values, first + half, count - half);
    }
    double total = 0.0;
    int index = 0;
    if (count >= UNROLLED) {
      double[] part = new double[UNROLLED];
      for (; index < count - count % UNROLLED; index++) {
        part[index % UNROLLED] += values[first + index];
      }
      total = ((part[0] + part[1]) + (part[2] + part[3]))
              + ((part[4] + part[5]) + (part[6] + part[7]));
    }
    for (; index < count; index++) {
      total += values[first + index];
    }
    return total;
  }
}
