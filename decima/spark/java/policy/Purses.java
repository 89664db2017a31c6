package decima.policy;

import java.util.Arrays;

/**
 * What users' caps leave of the slots in one round: a purse for each cap, and each job draws on
 * those that its user, pool, group or itself is under.
 */
public final class Purses {
  private final int[][] ofJob;
  private final int[] left;

  /**
   * @param ofJob (J,) the purses that a job draws on.
   * @param capacity of each purse: the most slots that its jobs may hold together.
   */
  public Purses(int[][] ofJob, int[] capacity) {
    this.ofJob = ofJob;
    this.left = Arrays.copyOf(capacity, capacity.length);
  }

  /** Where nobody has set a cap. */
  static Purses none(int jobs) {
    return new Purses(new int[jobs][0], new int[0]);
  }

  /** What is left now, to be taken from without a change of this. */
  Purses copy() {
    return new Purses(ofJob, left);
  }

  /** Slots that the job may still get. */
  int room(int job) {
    int found = Integer.MAX_VALUE;
    for (int purse : ofJob[job]) {
      found = Math.min(found, left[purse]);
    }
    return found;
  }

  void take(int job, int slots) {
    for (int purse : ofJob[job]) {
      left[purse] -= slots;
    }
  }
}
