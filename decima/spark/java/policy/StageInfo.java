package decima.policy;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/** A stage as a Spark job lists it when it begins, whether or not it will run. */
final class StageInfo {
  final int stage;
  final int numTasks;
  final long[] parents;
  /** the same for a skipped stage and the one that ran */
  final List<Long> rdds = new ArrayList<>();

  StageInfo(List<?> info) {
    stage = (int) Report.number(info.get(0));
    numTasks = (int) Report.number(info.get(1));
    parents = Report.numbers((List<?>) info.get(2));
    long[] found = Report.numbers((List<?>) info.get(3));
    Arrays.sort(found);
    for (long rdd : found) {
      rdds.add(rdd);
    }
  }
}
