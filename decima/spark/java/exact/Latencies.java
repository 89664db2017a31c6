package decima.spark;

import java.util.Arrays;

/** The newest of many times, for their quantiles. */
final class Latencies {
  private static final int KEPT = 1_000;
  private final long[] ns = new long[KEPT];
  private int count = 0;

  synchronized void note(long took) {
    ns[count++ % KEPT] = took;
  }

  /** In seconds; 0 if there were none. */
  synchronized double quantile(double share) {
    int known = Math.min(count, KEPT);
    if (known == 0) {
      return 0.0;
    }
    long[] sorted = Arrays.copyOf(ns, known);
    Arrays.sort(sorted);
    return sorted[(int) Math.round(share * (known - 1))] / 1e9;
  }
}
