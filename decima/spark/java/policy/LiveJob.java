package decima.policy;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.NavigableSet;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;

/** A job that runs on a live Spark; stages in the order in which Spark named them. */
final class LiveJob {
  /** a policy sees so many finished stages of a job, the newest; all of any ordinary job */
  private static final int SHOWN_FINISHED = 100;
  /** so many are remembered, for stages that are listed again */
  private static final int KEPT_FINISHED = 10_000;

  final String key;
  final long arrivalMs;
  List<LiveStage> stages = new ArrayList<>();
  /** stages by their RDDs: several where these are shuffled in several ways */
  Map<List<Long>, List<Integer>> rowsOf = new HashMap<>();
  /** stages that are not done */
  TreeSet<Integer> openRows = new TreeSet<>();
  /** all ids that Spark has given its stages */
  final Set<Integer> sparkStages = new HashSet<>();
  /** number of the SQL execution that its newest Spark job is part of, or null */
  String execution;
  /** Spark jobs */
  final Set<Integer> unfinished = new HashSet<>();
  /** stages that Spark holds tasks of */
  int submitted = 0;
  int running = 0;
  long measured = 0;
  double measuredMs = 0.0;
  /** when a Spark job of it last began or ended, or held a task set */
  long seenMs;
  /** when the last of its Spark jobs ended; -1: none has */
  long doneMs = -1;

  LiveJob(String key, long arrivalMs) {
    this.key = key;
    this.arrivalMs = arrivalMs;
    this.seenMs = arrivalMs;
  }

  boolean isActive() {
    return !unfinished.isEmpty() || submitted > 0;
  }

  /** The row of a new stage. */
  int addStage(int sparkStage, int numTasks) {
    int row = stages.size();
    stages.add(new LiveStage(sparkStage, numTasks));
    openRows.add(row);
    sparkStages.add(sparkStage);
    return row;
  }

  void setDone(int row, boolean isDone) {
    stages.get(row).isDone = isDone;
    if (isDone) {
      openRows.remove(row);
    } else {
      openRows.add(row);
    }
  }

  /** The rows that a policy sees: all stages that are not done, and the newest that are. */
  NavigableSet<Integer> shownRows() {
    return openAndNewestDone(SHOWN_FINISHED);
  }

  private NavigableSet<Integer> openAndNewestDone(int count) {
    TreeSet<Integer> found = new TreeSet<>(openRows);
    int left = count;
    for (int row = stages.size() - 1; row >= 0 && left > 0; row--) {
      if (!openRows.contains(row)) {
        found.add(row);
        left -= 1;
      }
    }
    return found;
  }

  /** Forget the oldest finished stages of a job that never ends; new rows by old, or null. */
  Map<Integer, Integer> trim() {
    if (stages.size() - openRows.size() <= 2 * KEPT_FINISHED) {
      return null;
    }
    Map<Integer, Integer> newOf = new TreeMap<>();
    List<LiveStage> kept = new ArrayList<>();
    for (int row : openAndNewestDone(KEPT_FINISHED)) {
      newOf.put(row, kept.size());
      kept.add(stages.get(row));
    }
    stages = kept;
    for (LiveStage stage : stages) {
      stage.parents = new TreeSet<>(renamed(stage.parents, newOf));
    }
    openRows = new TreeSet<>(renamed(openRows, newOf));
    for (Iterator<List<Integer>> all = rowsOf.values().iterator(); all.hasNext(); ) {
      List<Integer> rows = all.next();
      List<Integer> left = renamed(rows, newOf);
      rows.clear();
      rows.addAll(left);
      if (rows.isEmpty()) {
        all.remove();
      }
    }
    return newOf;
  }

  private static List<Integer> renamed(Iterable<Integer> rows, Map<Integer, Integer> newOf) {
    List<Integer> found = new ArrayList<>();
    for (int row : rows) {
      if (newOf.containsKey(row)) {
        found.add(newOf.get(row));
      }
    }
    return found;
  }
}
