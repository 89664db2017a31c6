package decima.policy;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Collections;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * Spark's jobs and stages, put together from reports to the jobs that a policy knows; the same rules
 * as decima/spark/jobs.py, which a test holds it to.
 */
public final class LiveJobs {
  /** a job without an unfinished Spark job may still grow for so long */
  private static final long FORGET_MS = 60_000;
  /** a job that held no task set for so long has ended, and its event was lost */
  private static final long LOST_MS = 600_000;
  /** of a job that the application has named: after so long it is another run */
  private static final long NEXT_RUN_MS = 5_000;
  /** of a task, while nothing at all has been measured */
  private static final double DEFAULT_TASK_MS = 1_000.0;
  private static final double LEAST_WORK_MS = 1.0;
  private static final String[] EXECUTIONS = {
    "spark.sql.execution.root.id", "spark.sql.execution.id"
  };

  /** grows when a job, a stage or an edge comes or goes */
  long version = 0;
  long timeMs;
  int slots;
  /** of any job, those that are over included */
  long lastArrivalMs;
  /** by job: slots of tasks that run on though nobody needs them any more */
  Map<String, Integer> lostSlots = new HashMap<>();
  /** by job: the caps that it is under */
  Map<String, Map<String, Integer>> caps = Collections.emptyMap();

  private final Map<String, LiveJob> jobs = new LinkedHashMap<>();
  private final Map<Integer, Place> place = new HashMap<>();
  private final Map<Integer, LiveJob> jobOfSparkJob = new HashMap<>();
  /** stages with a task set, whose rows may change, and their jobs */
  private final Map<LiveStage, LiveJob> submitted = new LinkedHashMap<>();
  private long firstArrivalMs = Long.MAX_VALUE;
  private int forgottenJobs = 0;
  private double forgottenWorkLog = 0.0;
  private long measured = 0;
  private double measuredMs = 0.0;

  /** Where a stage of Spark's is. */
  private static final class Place {
    final LiveJob job;
    final int row;

    Place(LiveJob job, int row) {
      this.job = job;
      this.row = row;
    }

    LiveStage stage() {
      return job.stages.get(row);
    }
  }

  /** Jobs with something left to run, by arrival. */
  List<LiveJob> active() {
    List<LiveJob> found = new ArrayList<>();
    for (LiveJob job : jobs.values()) {
      if (job.isActive() && !job.stages.isEmpty()) {
        found.add(job);
      }
    }
    found.sort(Comparator.comparingLong(job -> job.arrivalMs));
    return found;
  }

  /** Take in the events, then the task sets, which have the last word. */
  public void update(Report report) {
    timeMs = report.timeMs;
    slots = report.slots;
    caps = report.caps;
    for (List<?> event : report.events) {
      switch ((String) event.get(0)) {
        case "J":
          start(event);
          break;
        case "E":
          end((int) Report.number(event.get(1)), Report.number(event.get(2)));
          break;
        default:
          finishStage((int) Report.number(event.get(1)), Boolean.TRUE.equals(event.get(3)));
      }
    }
    for (long[] row : report.measured) {
      measure(row);
    }
    takeSets(report);
    forget();
  }

  /** Expected duration of a task: measured, else the mean of the job's, else of all so far. */
  double meanMs(LiveJob job, LiveStage stage) {
    if (stage.measured > 0) {
      return Math.max(1.0, stage.measuredMs / stage.measured);
    }
    if (job.measured > 0) {
      return Math.max(1.0, job.measuredMs / job.measured);
    }
    return measured > 0 ? Math.max(1.0, measuredMs / measured) : DEFAULT_TASK_MS;
  }

  /** Work of a job: geometric mean over all so far, those that are over included. */
  double typicalMs() {
    double total = 0.0;
    for (LiveJob job : jobs.values()) {
      total += workLog(job);
    }
    return Math.exp((forgottenWorkLog + total) / Math.max(1, forgottenJobs + jobs.size()));
  }

  /** Mean time between arrivals so far, of jobs that are over, too; infinity before the second. */
  double meanGapMs() {
    int gaps = forgottenJobs + jobs.size() - 1;
    return gaps > 0
        ? (double) (lastArrivalMs - firstArrivalMs) / gaps : Double.POSITIVE_INFINITY;
  }

  private double workLog(LiveJob job) {
    double workMs = 0.0;
    for (LiveStage stage : job.stages) {
      workMs += stage.numTasks * meanMs(job, stage);
    }
    return Math.log(Math.max(workMs, LEAST_WORK_MS));
  }

  // --- events --------------------------------------------------------------------------------

  private void start(List<?> event) {
    int sparkJob = (int) Report.number(event.get(1));
    long startMs = Report.number(event.get(2));
    Map<?, ?> properties = (Map<?, ?>) event.get(4);
    String key = (String) event.get(5);
    String execution = executionOf(properties);
    LiveJob known = jobs.get(key);
    if (known != null && isOver(known, execution, startMs)) {
      drop(key);
    }
    LiveJob job = job(key, startMs);
    job.execution = execution;
    trim(job);
    job.unfinished.add(sparkJob);
    job.seenMs = startMs;
    jobOfSparkJob.put(sparkJob, job);
    List<StageInfo> infos = new ArrayList<>();
    for (Object info : (List<?>) event.get(3)) {
      infos.add(new StageInfo((List<?>) info));
    }
    infos.sort(Comparator.comparingInt(info -> info.stage));
    addStages(job, infos);
    for (StageInfo info : infos) {
      addParents(job, info);
    }
  }

  private static String executionOf(Map<?, ?> properties) {
    for (String name : EXECUTIONS) {
      Object found = properties.get(name);
      if (found != null && !"".equals(found)) {
        return (String) found;
      }
    }
    return null;
  }

  /** Whether what begins now under its name is another job, not more of a SQL execution. */
  private static boolean isOver(LiveJob job, String execution, long startMs) {
    boolean goesOn = job.isActive() || (execution != null && execution.equals(job.execution));
    return !goesOn && startMs - job.seenMs > NEXT_RUN_MS;
  }

  private LiveJob job(String key, long arrivalMs) {
    LiveJob found = jobs.get(key);
    if (found == null) {
      found = new LiveJob(key, arrivalMs);
      jobs.put(key, found);
      lastArrivalMs = Math.max(lastArrivalMs, arrivalMs);
      firstArrivalMs = Math.min(firstArrivalMs, arrivalMs);
      version += 1;
    }
    return found;
  }

  private void trim(LiveJob job) {
    Map<Integer, Integer> newOf = job.trim();
    if (newOf == null) {
      return;
    }
    for (int number : new ArrayList<>(job.sparkStages)) {
      Integer row = newOf.get(place.get(number).row);
      if (row == null) {
        job.sparkStages.remove(number);
        place.remove(number);
      } else {
        place.put(number, new Place(job, row));
      }
    }
    version += 1;
  }

  /** What Spark tells of a stage when its job begins. */
  private static final class StageInfo {
    final int stage;
    final int numTasks;
    final long[] parents;
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

  private void addStages(LiveJob job, List<StageInfo> infos) {
    Map<Integer, Integer> rows = knownRows(job, infos);
    for (StageInfo info : infos) {
      Integer row = rows.get(info.stage);
      if (row == null) {
        row = job.addStage(info.stage, info.numTasks);
        version += 1;
      }
      place.put(info.stage, new Place(job, row));
      job.sparkStages.add(info.stage);
      List<Integer> overSame = job.rowsOf.computeIfAbsent(info.rdds, rdds -> new ArrayList<>());
      if (!overSame.contains(row)) {
        overSame.add(row);
      }
    }
  }

  /**
   * By Spark's id, the rows of stages that are there already: seen before, or over the RDDs of one
   * that is. Two stages of one Spark job are never the same: the last of those over the same RDDs is
   * the last known.
   */
  private Map<Integer, Integer> knownRows(LiveJob job, List<StageInfo> infos) {
    Map<Integer, Integer> found = new HashMap<>();
    for (StageInfo info : infos) {
      Place known = place.get(info.stage);
      if (known != null && known.job == job) {
        found.put(info.stage, known.row);
      }
    }
    Set<Integer> taken = new HashSet<>(found.values());
    for (int index = infos.size() - 1; index >= 0; index--) {
      StageInfo info = infos.get(index);
      List<Integer> rows = job.rowsOf.getOrDefault(info.rdds, Collections.emptyList());
      for (int last = rows.size() - 1; last >= 0 && !found.containsKey(info.stage); last--) {
        if (taken.add(rows.get(last))) {
          found.put(info.stage, rows.get(last));
        }
      }
    }
    return found;
  }

  private void addParents(LiveJob job, StageInfo info) {
    int row = place.get(info.stage).row;
    for (long parent : info.parents) {
      Place known = place.get((int) parent);
      if (known != null && known.job == job && known.row != row) {
        version += job.stages.get(row).parents.add(known.row) ? 1 : 0;
      }
    }
  }

  private void end(int sparkJob, long endMs) {
    LiveJob job = jobOfSparkJob.remove(sparkJob);
    if (job != null) {
      job.unfinished.remove(sparkJob);
      job.seenMs = job.doneMs = endMs;
      version += 1;
    }
  }

  private void finishStage(int stage, boolean succeeded) {
    Place known = place.get(stage);
    if (known != null && succeeded) {
      known.job.setDone(known.row, true);
    }
  }

  private void measure(long[] row) {
    Place known = place.get((int) row[0]);
    if (known == null) {
      return;
    }
    known.stage().measure(row);
    known.job.measured += row[1];
    known.job.measuredMs += row[2];
    measured += row[1];
    measuredMs += row[2];
  }

  // --- task sets -----------------------------------------------------------------------------

  private void takeSets(Report report) {
    lostSlots = new HashMap<>();
    for (Map.Entry<LiveStage, LiveJob> one : submitted.entrySet()) {
      one.getKey().isSubmitted = false;
      one.getKey().running = one.getValue().submitted = one.getValue().running = 0;
    }
    submitted.clear();
    boolean isFull = report.running() >= report.slots;
    List<Report.TaskSet> sets = new ArrayList<>(report.sets);
    sets.sort(
        Comparator.comparingInt((Report.TaskSet one) -> one.stage)
            .thenComparingInt(one -> one.attempt));
    for (Report.TaskSet one : sets) {
      Place known = place.containsKey(one.stage) ? place.get(one.stage) : unannounced(one);
      known.job.seenMs = timeMs;
      if (one.isZombie) {
        lostSlots.merge(known.job.key, one.running, Integer::sum);
        continue;
      }
      takeSet(known, one);
      LiveStage stage = known.stage();
      if (isFull && stage.launched() == 0 && stage.keptSinceMs < 0) {
        stage.keptSinceMs = timeMs;
      }
    }
  }

  private void takeSet(Place known, Report.TaskSet one) {
    LiveStage stage = known.stage();
    stage.sparkStage = one.stage;
    stage.numTasks = one.numTasks;
    stage.allTasks = Math.max(stage.allTasks, one.numTasks);
    stage.successful = one.successful;
    stage.running = one.running;
    if (!stage.isSubmitted) {
      stage.isSubmitted = true;
      known.job.submitted += 1;
      submitted.put(stage, known.job);
    }
    known.job.running += one.running;
    known.job.setDone(known.row, one.successful >= one.numTasks);
    finishAncestors(known);
  }

  /** A task set whose job's event is still on its way. */
  private Place unannounced(Report.TaskSet one) {
    LiveJob job = job(one.job, timeMs);
    Place made = new Place(job, job.addStage(one.stage, one.numTasks));
    version += 1;
    place.put(one.stage, made);
    return made;
  }

  /** A stage runs, so what it waits for is complete, or was skipped. */
  private static void finishAncestors(Place known) {
    List<Integer> waiting = new ArrayList<>(known.stage().parents);
    while (!waiting.isEmpty()) {
      int row = waiting.remove(waiting.size() - 1);
      LiveStage stage = known.job.stages.get(row);
      if (!stage.isSubmitted && !stage.isDone) {
        known.job.setDone(row, true);
        waiting.addAll(stage.parents);
      }
    }
  }

  private void forget() {
    for (LiveJob job : new ArrayList<>(jobs.values())) {
      if (timeMs - job.seenMs > (job.isActive() ? LOST_MS : FORGET_MS)) {
        drop(job.key);
      }
    }
  }

  private void drop(String key) {
    LiveJob job = jobs.remove(key);
    version += 1;
    forgottenJobs += 1;
    forgottenWorkLog += workLog(job);
    place.keySet().removeAll((Collection<Integer>) job.sparkStages);
    jobOfSparkJob.keySet().removeAll((Collection<Integer>) job.unfinished);
  }
}
