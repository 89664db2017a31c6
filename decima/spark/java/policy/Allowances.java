package decima.policy;

import java.util.Arrays;

/**
 * Slots that users' caps leave in one round. A job draws on every cap that its user, pool, group or
 * itself is under.
 */
public final class Allowances {
  private final int[][] ofJob;
  private final int[] left;

  /**
   * @param ofJob (J,) the caps that a job draws on.
   * @param capacity of each cap: the most slots that its jobs may hold together.
   */
  public Allowances(int[][] ofJob, int[] capacity) {
    this.ofJob = ofJob;
    this.left = Arrays.copyOf(capacity, capacity.length);
  }

  /** Without caps. */
  static Allowances none(int jobs) {
    return new Allowances(new int[jobs][0], new int[0]);
  }

  /** Whether there is any cap. */
  boolean areSet() {
    return left.length > 0;
  }

  /** What is left now, to be taken from without a change of this. */
  Allowances copy() {
    return new Allowances(ofJob, left);
  }

  /** Slots that the job may still get. */
  int room(int job) {
    int found = Integer.MAX_VALUE;
    for (int cap : ofJob[job]) {
      found = Math.min(found, left[cap]);
    }
    return found;
  }

  void take(int job, int slots) {
    for (int cap : ofJob[job]) {
      left[cap] -= slots;
    }
  }
}
