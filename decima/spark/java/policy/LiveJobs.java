package decima.policy;

import decima.spark.Report;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * Spark's jobs and stages, put together from reports to the jobs that a policy knows. For one thread;
 * any may read `priorHits` and `priorMisses`.
 *
 * <p>A job is a SQL execution, a job group, or a Spark job. Under adaptive execution every stage is a
 * Spark job of its own: they are joined into one job that grows. A stage that is listed again because
 * its output is reused is the stage that ran: both have the same RDDs.
 */
public final class LiveJobs {
  /** a job without an unfinished Spark job may still grow for so long */
  private static final long FORGET_MS = 60_000;
  /** a job that held no task set for so long has ended, and its event was lost */
  private static final long LOST_MS = 600_000;
  /** a job without news since its last end for so long is taken to be over */
  private static final long QUIET_MS = 500;
  /** of a job that the application has named: after so long it is another run */
  private static final long NEXT_RUN_MS = 5_000;
  private static final String[] EXECUTIONS = {
    "spark.sql.execution.root.id", "spark.sql.execution.id"
  };

  /** grows when a job, a stage or an edge comes or goes */
  long version = 0;
  public long timeMs;
  public int slots;
  /** of any job, those that are over included */
  long lastArrivalMs;
  /** by job: slots of tasks that run on though their results are not needed any more */
  Map<String, Integer> lostSlots = new HashMap<>();
  /** by job: the caps that it is under */
  Map<String, Map<String, Integer>> caps = Collections.emptyMap();
  /** jobs that the last `update` found to be over */
  public List<LiveJob> forgotten = new ArrayList<>();
  /**
   * jobs that the last `update` found to have ended, or to be lost; one that goes on after its end
   * comes again
   */
  public List<LiveJob> ended = new ArrayList<>();
  final Durations durations = new Durations();

  private final Map<String, LiveJob> jobs = new LinkedHashMap<>();
  private final Map<Integer, Place> place = new HashMap<>();
  private final Map<Integer, LiveJob> jobOfSparkJob = new HashMap<>();
  /** stages with a task set, whose rows may change, and their jobs */
  private final Map<LiveStage, LiveJob> submitted = new LinkedHashMap<>();
  private long firstArrivalMs = Long.MAX_VALUE;
  private int forgottenJobs = 0;
  private double forgottenWorkLog = 0.0;
  private List<LiveJob> nextForgotten = new ArrayList<>();
  /** jobs whose last end was not in `ended` yet */
  private final Map<String, LiveJob> ending = new LinkedHashMap<>();
  /** likewise, of those that are known no more */
  private List<LiveJob> dropped = new ArrayList<>();

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

  /** Look up all stages that are not done, and those to come, in earlier runs. */
  public void setPriors(Priors priors) {
    durations.setPriors(priors, jobs.values());
  }

  /** Number of stages for which earlier runs were found. */
  public int priorHits() {
    return durations.hits;
  }

  /** Number of stages that were looked up in vain. */
  public int priorMisses() {
    return durations.misses;
  }

  /** Jobs that run, and those that ended a short while ago. */
  public List<LiveJob> known() {
    return new ArrayList<>(jobs.values());
  }

  /** Jobs that run, and those that ended and have not been in `ended` yet. */
  public List<LiveJob> unreported() {
    List<LiveJob> found = known();
    found.removeIf(job -> !job.isActive() && !ending.containsKey(job.key));
    return found;
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
    for (Report.Event event : report.events) {
      switch (event.kind) {
        case JOB_START:
          start(event);
          break;
        case JOB_END:
          end(event);
          break;
        default:
          Place ended = place.get(event.id);
          if (ended != null && event.succeeded) {
            ended.job.setDone(ended.row, true);
          }
      }
    }
    for (Report.Measured tasks : report.measured) {
      Place known = place.get(tasks.stage);
      if (known != null) {
        durations.measure(known.job, known.stage(), tasks);
      }
    }
    takeSets(report);
    forget();
  }

  /** Work of a job: geometric mean over all so far, those that are over included. */
  double typicalMs() {
    double total = 0.0;
    for (LiveJob job : jobs.values()) {
      total += durations.workLog(job);
    }
    return Math.exp((forgottenWorkLog + total) / Math.max(1, forgottenJobs + jobs.size()));
  }

  /** Mean time between arrivals so far, of jobs that are over, too; infinity before the second. */
  double meanGapMs() {
    int gaps = forgottenJobs + jobs.size() - 1;
    return gaps > 0
        ? (double) (lastArrivalMs - firstArrivalMs) / gaps : Double.POSITIVE_INFINITY;
  }

  // --- events --------------------------------------------------------------------------------

  private void start(Report.Event event) {
    String execution = null;
    for (String name : EXECUTIONS) {
      if (execution == null || execution.isEmpty()) {
        execution = event.properties.get(name);
      }
    }
    LiveJob known = jobs.get(event.job);
    if (known != null && isOver(known, execution, event.timeMs)) {
      nextForgotten.add(drop(known));
    }
    LiveJob job = job(event.job, event.timeMs);
    job.execution = execution;
    trim(job);
    if (job.takeNames(Queries.of(event.properties))) {
      durations.lookUpOpen(job);
    }
    job.unfinished.add(event.id);
    job.seenMs = event.timeMs;
    jobOfSparkJob.put(event.id, job);
    List<Report.StageInfo> infos = new ArrayList<>(event.stages);
    infos.sort(Comparator.comparingInt(info -> info.stage));
    addStages(job, infos);
    for (Report.StageInfo info : infos) {
      int row = place.get(info.stage).row;
      for (int parent : info.parents) {
        Place above = place.get(parent);
        if (above != null && above.job == job && above.row != row) {
          version += job.stages.get(row).parents.add(above.row) ? 1 : 0;
        }
      }
    }
  }

  /** Whether what begins now under its name is another job, not more of a SQL execution. */
  private static boolean isOver(LiveJob job, String execution, long startMs) {
    boolean isSame = execution != null && !execution.isEmpty() && execution.equals(job.execution);
    boolean goesOn = job.isActive() || isSame;
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

  private void addStages(LiveJob job, List<Report.StageInfo> infos) {
    Map<Integer, Integer> rows = knownRows(job, infos);
    for (Report.StageInfo info : infos) {
      Integer row = rows.get(info.stage);
      if (row == null) {
        row = newStage(job, info.stage, info.numTasks);
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
  private Map<Integer, Integer> knownRows(LiveJob job, List<Report.StageInfo> infos) {
    Map<Integer, Integer> found = new HashMap<>();
    for (Report.StageInfo info : infos) {
      Place known = place.get(info.stage);
      if (known != null && known.job == job) {
        found.put(info.stage, known.row);
      }
    }
    Set<Integer> taken = new HashSet<>(found.values());
    for (int index = infos.size() - 1; index >= 0; index--) {
      Report.StageInfo info = infos.get(index);
      List<Integer> rows = job.rowsOf.getOrDefault(info.rdds, Collections.emptyList());
      for (int last = rows.size() - 1; last >= 0 && !found.containsKey(info.stage); last--) {
        if (taken.add(rows.get(last))) {
          found.put(info.stage, rows.get(last));
        }
      }
    }
    return found;
  }

  private int newStage(LiveJob job, int sparkStage, int numTasks) {
    int row = job.addStage(sparkStage, numTasks);
    durations.lookUp(job, job.stages.get(row));
    version += 1;
    return row;
  }

  private void end(Report.Event event) {
    LiveJob job = jobOfSparkJob.remove(event.id);
    if (job != null) {
      job.unfinished.remove(event.id);
      job.seenMs = job.doneMs = event.timeMs;
      ending.put(job.key, job);
      version += 1;
    }
  }

  // --- task sets -----------------------------------------------------------------------------

  private void takeSets(Report report) {
    lostSlots = new HashMap<>();
    submitted.forEach(
        (stage, job) -> {
          stage.isSubmitted = false;
          stage.running = job.submitted = job.running = 0;
        });
    submitted.clear();
    boolean isFull = report.running() >= report.slots;
    List<Report.TaskSet> sets = new ArrayList<>(report.sets);
    sets.sort(
        Comparator.comparingInt((Report.TaskSet set) -> set.stage)
            .thenComparingInt(set -> set.attempt));
    for (Report.TaskSet set : sets) {
      Place known = place.get(set.stage);
      if (known == null) { // its job's event is still on its way
        LiveJob job = job(set.job, timeMs);
        known = new Place(job, newStage(job, set.stage, set.numTasks));
        place.put(set.stage, known);
      }
      known.job.seenMs = timeMs;
      if (set.isZombie) {
        lostSlots.merge(known.job.key, set.running, Integer::sum);
        continue;
      }
      takeSet(known, set);
      LiveStage stage = known.stage();
      if (isFull && stage.launched() == 0 && stage.keptSinceMs < 0) {
        stage.keptSinceMs = timeMs;
      }
    }
  }

  private void takeSet(Place known, Report.TaskSet set) {
    LiveStage stage = known.stage();
    stage.sparkStage = set.stage;
    stage.numTasks = set.numTasks;
    stage.allTasks = Math.max(stage.allTasks, set.numTasks);
    stage.successful = set.successful;
    stage.running = set.running;
    if (!stage.isSubmitted) {
      stage.isSubmitted = true;
      known.job.submitted += 1;
      submitted.put(stage, known.job);
    }
    known.job.running += set.running;
    known.job.pool = set.pool;
    known.job.setDone(known.row, set.successful >= set.numTasks);
    finishAncestors(known);
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
    forgotten = nextForgotten;
    nextForgotten = new ArrayList<>();
    for (LiveJob job : known()) {
      if (timeMs - job.seenMs > (job.isActive() ? LOST_MS : FORGET_MS)) {
        forgotten.add(drop(job));
      }
    }
    ended = dropped;
    dropped = new ArrayList<>();
    for (Iterator<LiveJob> all = ending.values().iterator(); all.hasNext(); ) {
      LiveJob job = all.next();
      if (!job.isActive() && timeMs - job.seenMs >= QUIET_MS) {
        ended.add(job);
        all.remove();
      }
    }
  }

  private LiveJob drop(LiveJob job) {
    jobs.remove(job.key);
    if (ending.remove(job.key) != null || job.isActive()) {
      dropped.add(job);
    }
    version += 1;
    forgottenJobs += 1;
    forgottenWorkLog += durations.workLog(job);
    place.keySet().removeAll((Collection<Integer>) job.sparkStages);
    jobOfSparkJob.keySet().removeAll((Collection<Integer>) job.unfinished);
    return job;
  }
}
