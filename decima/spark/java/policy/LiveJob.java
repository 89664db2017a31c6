package decima.policy;

import decima.spark.Report;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.NavigableSet;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;

/** A job that runs on a live Spark; stages in the order in which Spark named them. */
public final class LiveJob {
  /** a policy sees so many finished stages of a job, the newest; all of any ordinary job */
  private static final int SHOWN_FINISHED = 100;
  /** so many are remembered, for reviews and for stages that are listed again */
  private static final int KEPT_FINISHED = 10_000;

  public final String key;
  public final long arrivalMs;
  private String name;
  /** by which earlier runs of it are known, best first */
  List<Queries.Query> queries = Collections.emptyList();
  List<LiveStage> stages = new ArrayList<>();
  /** stages by their RDDs: several where these are shuffled in several ways */
  Map<List<Integer>, List<Integer>> rowsOf = new HashMap<>();
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
  /** of its newest task set; null: it is in none, or pools have no meaning */
  Report.PoolInfo pool = null;
  /** when a Spark job of it last began or ended, or held a task set */
  long seenMs;
  /** when the last of its Spark jobs ended; -1: none has */
  long doneMs = -1;
  /** number of stages by number of tasks */
  private final Map<Integer, Integer> sizes = new HashMap<>();

  LiveJob(String key, long arrivalMs) {
    this.key = key;
    this.name = key.substring(key.indexOf(' ') + 1);
    this.arrivalMs = arrivalMs;
    this.seenMs = arrivalMs;
  }

  /** The name for people. */
  public String name() {
    return name;
  }

  /**
   * Take the names of the newest Spark job, unless it has fewer: a broadcast has no name.
   *
   * @return whether they are others than before.
   */
  boolean takeNames(List<Queries.Query> found) {
    if (found.isEmpty() || found.equals(queries)) {
      return false;
    }
    boolean isGiven = found.get(0).isGiven;
    if (!queries.isEmpty() && !isGiven) {
      return false;
    }
    queries = found;
    name = isGiven ? found.get(0).name : name;
    return true;
  }

  /** Whether a Spark job of it has not ended, or Spark holds tasks of it. */
  public boolean isActive() {
    return !unfinished.isEmpty() || submitted > 0;
  }

  /** Tasks that run or wait for a slot. */
  int tasksLeft() {
    int found = 0;
    for (int row : openRows) {
      LiveStage stage = stages.get(row);
      found += stage.isSubmitted ? stage.numTasks - stage.finished() : 0;
    }
    return found;
  }

  /** The row of a new stage. */
  int addStage(int sparkStage, int numTasks) {
    int row = stages.size();
    int place = sizes.merge(numTasks, 1, Integer::sum) - 1;
    stages.add(new LiveStage(sparkStage, numTasks, place));
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
    rowsOf.replaceAll((rdds, rows) -> renamed(rows, newOf));
    rowsOf.values().removeIf(List::isEmpty);
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

  // --- its row in the decision log -----------------------------------------------------------

  /** The job as the decision log has it; decima/spark/decision_log.py reads it. */
  public Map<String, Object> row() {
    List<Map<String, Object>> rows = new ArrayList<>();
    for (LiveStage stage : stages) {
      Map<String, Object> row = new LinkedHashMap<>();
      row.put("num_tasks", stage.allTasks);
      row.put("parents", new ArrayList<>(stage.parents));
      row.put("mean_ms", stage.measured > 0 ? stage.measuredMs / stage.measured : null);
      rows.add(row);
    }
    Map<String, Object> found = new LinkedHashMap<>();
    found.put("job", key);
    found.put("name", name);
    found.put("arrival_ms", arrivalMs);
    found.put("completion_ms", hasEnded() ? doneMs : null);
    found.put("own_ms", ownMs());
    found.put("stages", rows);
    return found;
  }

  private boolean hasEnded() {
    return !isActive() && doneMs >= 0;
  }

  /**
   * Spark's own time for the job, from planning to the first decision: that with neither running
   * tasks nor waiting for slots that other jobs held. Null while the job runs.
   */
  public Long ownMs() {
    if (!hasEnded()) {
      return null;
    }
    // (begin, end) in which stages ran or waited for slots
    List<long[]> busy = new ArrayList<>();
    for (LiveStage stage : stages) {
      if (stage.measured > 0) {
        long beginMs = stage.firstLaunchMs;
        beginMs = stage.keptSinceMs < 0 ? beginMs : Math.min(beginMs, stage.keptSinceMs);
        busy.add(new long[] {beginMs, stage.lastFinishMs});
      }
    }
    busy.sort(Comparator.comparingLong(interval -> interval[0]));
    long freeMs = 0;
    long sinceMs = arrivalMs;
    for (long[] busyMs : busy) {
      freeMs += Math.max(0, busyMs[0] - sinceMs);
      sinceMs = Math.max(sinceMs, busyMs[1]);
    }
    return freeMs + Math.max(0, doneMs - sinceMs);
  }
}
