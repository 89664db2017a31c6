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
import java.util.TreeSet;
import java.util.stream.Collectors;

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
  final List<Stage> stages = new ArrayList<>();
  /** stages by their RDDs: several where these are shuffled in several ways */
  final Map<List<Integer>, Set<Stage>> stagesOver = new HashMap<>();
  /** stages that are not done */
  TreeSet<Integer> openRows = new TreeSet<>();
  /** number of the SQL execution that its newest Spark job is part of, or null */
  String execution;
  /** Spark jobs */
  final Set<Integer> unfinished = new HashSet<>();
  /** stages that Spark holds tasks of */
  int submitted = 0;
  int running = 0;
  long measured = 0;
  double measuredMs = 0.0;
  /** of its newest task set; null: it is in none, or pools are ignored */
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
  boolean takeNames(List<Queries.Query> newest) {
    if (newest.isEmpty() || newest.equals(queries)) {
      return false;
    }
    boolean isGiven = newest.get(0).isGiven;
    if (!queries.isEmpty() && !isGiven) {
      return false;
    }
    queries = newest;
    name = isGiven ? newest.get(0).name : name;
    return true;
  }

  /** Whether a Spark job of it has not ended, or Spark holds tasks of it. */
  public boolean isActive() {
    return !unfinished.isEmpty() || submitted > 0;
  }

  /** Tasks that run or wait for a slot. */
  int tasksLeft() {
    int tasks = 0;
    for (int row : openRows) {
      Stage stage = stages.get(row);
      tasks += stage.isSubmitted ? stage.numTasks - stage.finished() : 0;
    }
    return tasks;
  }

  Stage addStage(int sparkStage, int numTasks) {
    int place = sizes.merge(numTasks, 1, Integer::sum) - 1;
    Stage stage = new Stage(this, stages.size(), sparkStage, numTasks, place);
    stages.add(stage);
    openRows.add(stage.row);
    return stage;
  }

  /** The rows that a policy sees: all stages that are not done, and the newest that are. */
  NavigableSet<Integer> shownRows() {
    return openAndNewestDone(SHOWN_FINISHED);
  }

  private NavigableSet<Integer> openAndNewestDone(int count) {
    TreeSet<Integer> rows = new TreeSet<>(openRows);
    int left = count;
    for (int row = stages.size() - 1; row >= 0 && left > 0; row--) {
      if (!openRows.contains(row)) {
        rows.add(row);
        left -= 1;
      }
    }
    return rows;
  }

  /** Forget the oldest finished stages of a job that never ends, if there are too many. */
  boolean trim() {
    if (stages.size() - openRows.size() <= 2 * KEPT_FINISHED) {
      return false;
    }
    Map<Integer, Integer> newRow = new HashMap<>();
    for (int row : openAndNewestDone(KEPT_FINISHED)) {
      newRow.put(row, newRow.size());
    }
    for (Stage stage : stages) {
      stage.row = newRow.getOrDefault(stage.row, -1);
      stage.parents = renamed(stage.parents, newRow);
    }
    stages.removeIf(stage -> stage.row < 0);
    openRows = renamed(openRows, newRow);
    stagesOver.values().forEach(over -> over.removeIf(stage -> stage.row < 0));
    stagesOver.values().removeIf(Set::isEmpty);
    return true;
  }

  private static TreeSet<Integer> renamed(Set<Integer> rows, Map<Integer, Integer> newRow) {
    return rows.stream()
        .filter(newRow::containsKey)
        .map(newRow::get)
        .collect(Collectors.toCollection(TreeSet::new));
  }

  // --- its row in the decision log -----------------------------------------------------------

  /** The job as the decision log has it; decima/spark/decision_log.py reads it. */
  public Map<String, Object> row() {
    List<Map<String, Object>> rows = new ArrayList<>();
    for (Stage stage : stages) {
      Map<String, Object> row = new LinkedHashMap<>();
      row.put("num_tasks", stage.allTasks);
      row.put("parents", new ArrayList<>(stage.parents));
      row.put("mean_ms", stage.measured > 0 ? stage.measuredMs / stage.measured : null);
      rows.add(row);
    }
    Map<String, Object> job = new LinkedHashMap<>();
    job.put("job", key);
    job.put("name", name);
    job.put("arrival_ms", arrivalMs);
    job.put("completion_ms", hasEnded() ? doneMs : null);
    job.put("own_ms", ownMs());
    job.put("stages", rows);
    return job;
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
    for (Stage stage : stages) {
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

  /** What is known of one stage; counts are those of its newest attempt. */
  static final class Stage {
    final LiveJob job;
    /** among the stages of the job; -1: it is forgotten */
    int row;
    int numTasks;
    /** of its largest attempt: a later one may only repeat what was lost */
    int allTasks;
    /** rows of the same job */
    Set<Integer> parents = new TreeSet<>();
    /** the id under which it runs or ran last */
    int sparkStage;
    /** how many earlier stages of the job have as many tasks */
    final int place;
    int successful = 0;
    int running = 0;
    /** Spark holds tasks of it */
    boolean isSubmitted = false;
    boolean isDone = false;
    long measured = 0;
    double measuredMs = 0.0;
    /** null while it has not been looked up */
    Priors.Prior prior;
    /** since when its tasks have waited for slots that others held, until the first started; -1 */
    long keptSinceMs = -1;
    /** of the tasks that were measured, since the epoch; -1: none was */
    long firstLaunchMs = -1;
    long lastFinishMs = -1;

    Stage(LiveJob job, int row, int sparkStage, int numTasks, int place) {
      this.job = job;
      this.row = row;
      this.sparkStage = sparkStage;
      this.place = place;
      this.numTasks = numTasks;
      this.allTasks = numTasks;
    }

    void setDone(boolean isDone) {
      this.isDone = isDone;
      if (isDone) {
        job.openRows.remove(row);
      } else {
        job.openRows.add(row);
      }
    }

    int launched() {
      return atMostAll(successful + running);
    }

    int finished() {
      return atMostAll(successful);
    }

    private int atMostAll(int count) {
      return isDone ? numTasks : Math.min(numTasks, count);
    }
  }
}
