package decima.policy;

import decima.spark.Report;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
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
  /** jobs that may not start yet: no policy observes them */
  private Set<String> waiting = Collections.emptySet();
  /** jobs that the last `update` found to be over */
  public List<LiveJob> forgotten = new ArrayList<>();
  /**
   * jobs that the last `update` found to have ended, or to be lost; one that goes on after its end
   * comes again
   */
  public List<LiveJob> ended = new ArrayList<>();
  final Durations durations = new Durations();

  private final Map<String, LiveJob> jobs = new LinkedHashMap<>();
  /** by each of the ids that Spark has given it */
  private final Map<Integer, LiveJob.Stage> stageOf = new HashMap<>();
  private final Map<Integer, LiveJob> jobOfSparkJob = new HashMap<>();
  /** stages with a task set */
  private final Set<LiveJob.Stage> submitted = new LinkedHashSet<>();
  private long firstArrivalMs = Long.MAX_VALUE;
  private int forgottenJobs = 0;
  private double forgottenWorkLog = 0.0;
  private List<LiveJob> nextForgotten = new ArrayList<>();
  /** jobs whose last end was not in `ended` yet */
  private final Map<String, LiveJob> ending = new LinkedHashMap<>();
  /** the same for jobs that have been forgotten */
  private List<LiveJob> dropped = new ArrayList<>();

  /** Look up all stages that are not done, and those to come, in earlier runs. */
  public void setPriors(Priors priors) {
    durations.setPriors(priors, jobs.values());
  }

  /** Number of stages for which earlier runs were found. */
  public int priorHits() {
    return durations.hits;
  }

  /** Number of stages that were looked up and not found. */
  public int priorMisses() {
    return durations.misses;
  }

  /** Jobs that run, and those that ended a short while ago. */
  public List<LiveJob> known() {
    return new ArrayList<>(jobs.values());
  }

  /** Jobs that run, and those that ended and have not been in `ended` yet. */
  public List<LiveJob> unreported() {
    List<LiveJob> running = known();
    running.removeIf(job -> !job.isActive() && !ending.containsKey(job.key));
    return running;
  }

  /** Jobs with something left to run, by arrival. */
  List<LiveJob> active() {
    List<LiveJob> active = new ArrayList<>();
    for (LiveJob job : jobs.values()) {
      if (job.isActive() && !job.stages.isEmpty() && !waiting.contains(job.key)) {
        active.add(job);
      }
    }
    active.sort(Comparator.comparingLong(job -> job.arrivalMs));
    return active;
  }

  /** Jobs that wait for a place and have a task set, by arrival, if a place is free. */
  List<LiveJob> candidates() {
    List<LiveJob> candidates = new ArrayList<>();
    for (String key : waiting) {
      LiveJob job = jobs.get(key);
      if (job != null && job.submitted > 0) {
        candidates.add(job);
      }
    }
    candidates.sort(Comparator.comparingLong(job -> job.arrivalMs));
    return candidates;
  }

  /** Take in the events, then the task sets, which override them. */
  public void update(Report report) {
    timeMs = report.timeMs;
    slots = report.slots;
    caps = report.caps;
    version += waiting.equals(report.waitingJobs) ? 0 : 1;
    waiting = report.waitingJobs;
    for (Report.Event event : report.events) {
      switch (event.kind) {
        case JOB_START:
          start(event);
          break;
        case JOB_END:
          end(event);
          break;
        default:
          LiveJob.Stage stage = stageOf.get(event.id);
          if (stage != null && event.succeeded) {
            stage.setDone(true);
          }
      }
    }
    for (Report.Measured tasks : report.measured) {
      LiveJob.Stage stage = stageOf.get(tasks.stage);
      if (stage != null) {
        durations.measure(stage, tasks);
      }
    }
    takeSets(report);
    for (String key : waiting) {
      if (jobs.containsKey(key)) {
        jobs.get(key).seenMs = timeMs;
      }
    }
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
    if (job.trim()) {
      stageOf.values().removeIf(stage -> stage.row < 0);
      version += 1;
    }
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
      LiveJob.Stage stage = stageOf.get(info.stage);
      for (int id : info.parents) {
        LiveJob.Stage parent = stageOf.get(id);
        if (parent != null && parent.job == job && parent != stage) {
          version += stage.parents.add(parent.row) ? 1 : 0;
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
    LiveJob job = jobs.get(key);
    if (job == null) {
      job = new LiveJob(key, arrivalMs);
      jobs.put(key, job);
      lastArrivalMs = Math.max(lastArrivalMs, arrivalMs);
      firstArrivalMs = Math.min(firstArrivalMs, arrivalMs);
      version += 1;
    }
    return job;
  }

  private void addStages(LiveJob job, List<Report.StageInfo> infos) {
    Map<Integer, LiveJob.Stage> known = knownStages(job, infos);
    for (Report.StageInfo info : infos) {
      LiveJob.Stage stage = known.get(info.stage);
      if (stage == null) {
        stage = newStage(job, info.stage, info.numTasks);
      }
      stageOf.put(info.stage, stage);
      job.stagesOver.computeIfAbsent(info.rdds, rdds -> new LinkedHashSet<>()).add(stage);
    }
  }

  /**
   * By Spark's id, the stages that are there already: seen before, or over the RDDs of one that is. Two
   * stages of one Spark job are never the same: the last of those over the same RDDs is the last known.
   */
  private Map<Integer, LiveJob.Stage> knownStages(LiveJob job, List<Report.StageInfo> infos) {
    Map<Integer, LiveJob.Stage> known = new HashMap<>();
    for (Report.StageInfo info : infos) {
      LiveJob.Stage stage = stageOf.get(info.stage);
      if (stage != null && stage.job == job) {
        known.put(info.stage, stage);
      }
    }
    Set<LiveJob.Stage> taken = new HashSet<>(known.values());
    for (int index = infos.size() - 1; index >= 0; index--) {
      Report.StageInfo info = infos.get(index);
      List<LiveJob.Stage> same =
          new ArrayList<>(job.stagesOver.getOrDefault(info.rdds, Collections.emptySet()));
      for (int last = same.size() - 1; last >= 0 && !known.containsKey(info.stage); last--) {
        if (taken.add(same.get(last))) {
          known.put(info.stage, same.get(last));
        }
      }
    }
    return known;
  }

  private LiveJob.Stage newStage(LiveJob job, int sparkStage, int numTasks) {
    LiveJob.Stage stage = job.addStage(sparkStage, numTasks);
    stageOf.put(sparkStage, stage);
    durations.lookUp(stage);
    version += 1;
    return stage;
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
    for (LiveJob.Stage stage : submitted) {
      stage.isSubmitted = false;
      stage.running = stage.job.submitted = stage.job.running = 0;
    }
    submitted.clear();
    boolean isFull = report.running() >= report.slots;
    List<Report.TaskSet> sets = new ArrayList<>(report.sets);
    sets.addAll(report.waitingSets);
    sets.sort(
        Comparator.comparingInt((Report.TaskSet set) -> set.stage)
            .thenComparingInt(set -> set.attempt));
    for (Report.TaskSet set : sets) {
      LiveJob.Stage stage = stageOf.get(set.stage);
      if (stage == null) { // its job's event is still on its way
        stage = newStage(job(set.job, timeMs), set.stage, set.numTasks);
      }
      stage.job.seenMs = timeMs;
      if (set.isZombie) {
        lostSlots.merge(stage.job.key, set.running, Integer::sum);
        continue;
      }
      takeSet(stage, set);
      boolean isKept = isFull && stage.launched() == 0 && !waiting.contains(stage.job.key);
      if (isKept && stage.keptSinceMs < 0) {
        stage.keptSinceMs = timeMs;
      }
    }
  }

  private void takeSet(LiveJob.Stage stage, Report.TaskSet set) {
    stage.sparkStage = set.stage;
    stage.numTasks = set.numTasks;
    stage.allTasks = Math.max(stage.allTasks, set.numTasks);
    stage.successful = set.successful;
    stage.running = set.running;
    if (!stage.isSubmitted) {
      stage.isSubmitted = true;
      stage.job.submitted += 1;
      submitted.add(stage);
    }
    stage.job.running += set.running;
    stage.job.pool = set.pool;
    stage.setDone(set.successful >= set.numTasks);
    // It runs, so what it waits for is complete, or was skipped.
    List<Integer> ancestors = new ArrayList<>(stage.parents);
    while (!ancestors.isEmpty()) {
      LiveJob.Stage above = stage.job.stages.get(ancestors.remove(ancestors.size() - 1));
      if (!above.isSubmitted && !above.isDone) {
        above.setDone(true);
        ancestors.addAll(above.parents);
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
    stageOf.values().removeIf(stage -> stage.job == job);
    jobOfSparkJob.values().removeIf(other -> other == job);
    return job;
  }
}
