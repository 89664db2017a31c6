package decima.policy;

/** Give slots to a stage until its job holds `limit`; the same as an action of the simulator. */
public final class Action {
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
