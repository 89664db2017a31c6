package decima.policy;

import java.util.List;

/** The pool of Spark's FAIR scheduler that a job is in. */
final class JobPool {
  final String name;
  final int weight;
  final int minShare;

  private JobPool(String name, int weight, int minShare) {
    this.name = name;
    this.weight = weight;
    this.minShare = minShare;
  }

  /** Read name, weight and minShare; null without a name. */
  static JobPool of(List<?> columns) {
    Object name = columns.get(0);
    return name == null
        ? null
        : new JobPool(
            (String) name,
            (int) Report.number(columns.get(1)),
            (int) Report.number(columns.get(2)));
  }

  /** Whether it has a weight or a minShare of its own: one that Spark made for a job has none. */
  boolean hasOwn() {
    return weight != 1 || minShare > 0;
  }
}
