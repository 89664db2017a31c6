package decima.policy;

import decima.spark.Report;
import java.util.Collection;

/** Expected durations of tasks: what was measured, what earlier runs took, else a guess. */
final class Durations {
  /** of a task, while nothing at all has been measured */
  private static final double DEFAULT_TASK_MS = 1_000.0;
  private static final double LEAST_WORK_MS = 1.0;

  /** null: there are none */
  private Priors priors;
  /** stages that were found in earlier runs, and those that were not; any thread may read them */
  volatile int hits = 0;
  volatile int misses = 0;
  private long measured = 0;
  private double measuredMs = 0.0;

  /** Look up the open stages of these jobs, and all that are looked up later, in other runs. */
  void setPriors(Priors priors, Collection<LiveJob> jobs) {
    this.priors = priors;
    for (LiveJob job : jobs) {
      lookUpOpen(job);
    }
  }

  void lookUpOpen(LiveJob job) {
    for (int row : job.openRows) {
      lookUp(job.stages.get(row));
    }
  }

  void lookUp(LiveJob.Stage stage) {
    if (priors == null) {
      return;
    }
    if (stage.prior != null) {
      count(stage.prior, -1);
    }
    stage.prior = priors.find(stage.job.queries, stage.allTasks, stage.place);
    count(stage.prior, 1);
  }

  private void count(Priors.Prior prior, int change) {
    if (prior.isHit()) {
      hits += change;
    } else {
      misses += change;
    }
  }

  /** Take in tasks of the stage that succeeded. */
  void measure(LiveJob.Stage stage, Report.Measured tasks) {
    stage.measured += tasks.tasks;
    stage.measuredMs += tasks.totalMs;
    stage.firstLaunchMs =
        stage.firstLaunchMs < 0
            ? tasks.firstLaunchMs
            : Math.min(stage.firstLaunchMs, tasks.firstLaunchMs);
    stage.lastFinishMs = Math.max(stage.lastFinishMs, tasks.lastFinishMs);
    stage.job.measured += tasks.tasks;
    stage.job.measuredMs += tasks.totalMs;
    measured += tasks.tasks;
    measuredMs += tasks.totalMs;
  }

  /**
   * Expected duration of the stage's tasks: measured and earlier runs', else the mean of the job's,
   * else of all tasks so far.
   */
  double meanMs(LiveJob.Stage stage) {
    if (stage.measured > 0) {
      double meanMs = Math.max(1.0, stage.measuredMs / stage.measured);
      boolean isOver = stage.isDone || stage.measured >= stage.numTasks;
      return isOver || stage.prior == null ? meanMs : between(meanMs, stage.measured, stage.prior);
    }
    if (stage.prior != null && stage.prior.isHit()) {
      return stage.prior.meanMs;
    }
    if (stage.job.measured > 0) {
      return Math.max(1.0, stage.job.measuredMs / stage.job.measured);
    }
    return measured > 0 ? Math.max(1.0, measuredMs / measured) : DEFAULT_TASK_MS;
  }

  /**
   * Geometric mean of both, by how many tasks each speaks for: the first tasks of a new executor may
   * take ten times as long, and those that end first are the short ones.
   */
  private static double between(double measuredMs, long tasks, Priors.Prior prior) {
    if (!prior.isHit()) {
      return measuredMs;
    }
    double weight = prior.match.tasks / (prior.match.tasks + tasks);
    double log = (1.0 - weight) * Math.log(measuredMs) + weight * Math.log(prior.meanMs);
    return Math.max(1.0, Math.exp(log));
  }

  /** Logarithm of a job's work in milliseconds. */
  double workLog(LiveJob job) {
    double workMs = 0.0;
    for (LiveJob.Stage stage : job.stages) {
      workMs += stage.numTasks * meanMs(stage);
    }
    return Math.log(Math.max(workMs, LEAST_WORK_MS));
  }
}
