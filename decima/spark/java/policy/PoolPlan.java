package decima.policy;

import java.util.List;

/** What was decided for the jobs of one group of pools. */
final class PoolPlan {
  final LiveTables tables;
  /** Spark's ids of the stages with a task to start */
  final List<Integer> considered;
  /** null: the group has no slot */
  final Round round;
  /** name of what decided */
  final String by;
  /** whether the policy had anything to decide */
  final boolean isAsked;

  PoolPlan(
      LiveTables tables, List<Integer> considered, Round round, String by, boolean isAsked) {
    this.tables = tables;
    this.considered = considered;
    this.round = round;
    this.by = by;
    this.isAsked = isAsked;
  }

  /** That of a group without a slot. */
  PoolPlan(LiveTables tables, List<Integer> considered) {
    this(tables, considered, null, null, false);
  }

  /** Slots that its jobs hold or are given. */
  int used() {
    return round == null ? 0 : round.tables.slots - round.unused();
  }

  /** Whether slots stand idle beside tasks that could start. */
  boolean isIdleBesideTasks() {
    return round != null && round.unused() > 0 && round.tasksLeft() > 0;
  }
}
