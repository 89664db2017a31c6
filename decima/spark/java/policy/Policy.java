package decima.policy;

/** Decides which stage gets slots next; it keeps nothing between decisions. */
public interface Policy {
  /** By which settings, logs and metrics know it. */
  String name();

  /** The next action of an open round. */
  Action decide(Round seen);
}
