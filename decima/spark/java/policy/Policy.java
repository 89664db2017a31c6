package decima.policy;

/** Decides which stage gets slots next; it keeps nothing between rounds. */
public interface Policy {
  /** By which settings, logs and metrics know it. */
  String name();

  /** The next action of an open round. */
  Action decide(Round seen);

  /** Decide until nothing is left to give. */
  default void fill(Round round) {
    while (round.isOpen()) {
      round.assign(decide(round));
    }
  }
}
