package decima.policy;

/** Decides which stage gets slots next; it keeps nothing between rounds. */
public interface Policy {
  /** Give slots to a stage until its job holds `limit`; the same as an action of the simulator. */
  final class Action {
    /** nothing more in this round */
    public static final Action PASS = new Action(-1, 0);

    /** row of the stage; -1 in `PASS` */
    public final int stage;
    public final int limit;

    public Action(int stage, int limit) {
      this.stage = stage;
      this.limit = limit;
    }
  }

  /** The policy is absent, which is no failure of it: another decides. */
  final class Absent extends RuntimeException {
    private static final long serialVersionUID = 1L;

    /** @param reason one line, for logs. */
    public Absent(String reason) {
      super(reason);
    }
  }

  /** A policy outside the JVM failed; the message says how. */
  final class Fault extends RuntimeException {
    private static final long serialVersionUID = 1L;

    /** @param reason one line. */
    public Fault(String reason) {
      super(reason);
    }
  }

  /** By which settings, logs and metrics know it. */
  String name();

  /** The next action of an open round. */
  Action decide(Round seen);

  /** Row of the stage that it would serve first in an open round; -1: none. */
  default int first(Round seen) {
    return decide(seen).stage;
  }

  /** Decide until nothing is left to give. */
  default void fill(Round round) {
    while (round.isOpen()) {
      round.assign(decide(round));
    }
  }
}
