package decima.policy;

import decima.spark.Report;
import java.util.Arrays;
import java.util.Collections;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Plans for made-up jobs, so that the first real plan finds compiled code. */
public final class WarmUp {
  private static final Logger LOG = LoggerFactory.getLogger(WarmUp.class);
  /** after so many the next plan takes less than 1 ms (benchmarks/jvm_decisions.py) */
  private static final int ENOUGH = 100;
  private static final int JOBS = 10;
  private static final int SLOTS = 40;
  private static final int STAGES = 4;
  private static final int TASKS = 40;
  private static final long TASK_MS = 500;
  private static final double STARVE_MS = 60_000;
  private static final double IDLE_MS = 5_000;

  private final int jobs;
  private final int slots;
  private int step = 0;

  /** A session of `jobs` jobs that are there from the start. */
  WarmUp(int jobs, int slots) {
    this.jobs = jobs;
    this.slots = slots;
  }

  /**
   * Make plans in a thread of their own: neither Spark nor a real plan waits for them.
   *
   * @param policy as for `run`.
   */
  public static void inBackground(Policy policy) {
    Runnable all =
        () -> {
          try {
            run(policy, ENOUGH);
          } catch (RuntimeException fault) {
            LOG.debug("warm-up", fault);
          }
        };
    Thread thread = new Thread(all, "decima-warm-up");
    thread.setDaemon(true);
    thread.start();
  }

  /**
   * Make so many plans.
   *
   * @param policy used for nothing else: it may remember its observations.
   */
  public static void run(Policy policy, int plans) {
    for (int made = 0; made < plans; ) {
      LiveJobs live = new LiveJobs();
      Planner planner = new Planner(policy, STARVE_MS, IDLE_MS);
      WarmUp session = new WarmUp(JOBS, SLOTS);
      for (int plan = 0; plan < TASKS && made < plans; plan++, made++) {
        live.update(session.next());
        planner.plan(live, 0, 0);
      }
    }
  }

  /** The next report: another task of one job has ended, and a slot runs the one after it. */
  Report next() {
    Report report = new Report();
    report.timeMs = 1_000L + step * TASK_MS;
    report.slots = slots;
    for (int job = 0; job < jobs; job++) {
      if (step == 0) {
        report.events.add(start(job));
      }
      int turns = (step + jobs - 1 - job) / jobs;
      for (int stage = 0; stage < 2; stage++) {
        Report.TaskSet set = new Report.TaskSet();
        set.stage = job * STAGES + stage;
        set.job = "spark " + job;
        set.numTasks = TASKS + job;
        set.successful = Math.min(TASKS - 2, turns);
        set.running = stage == 0 ? Math.min(slots / jobs, TASKS - set.successful) : 0;
        report.sets.add(set);
      }
    }
    Report.Measured measured = new Report.Measured();
    measured.stage = (step % jobs) * STAGES;
    measured.tasks = 1;
    measured.totalMs = TASK_MS + measured.stage;
    measured.firstLaunchMs = 1_000L;
    measured.lastFinishMs = report.timeMs;
    report.measured.add(measured);
    step += 1;
    return report;
  }

  /** The start of a job: two stages, a third that waits for both, and a fourth for that. */
  private static Report.Event start(int job) {
    Report.Event event = new Report.Event();
    event.kind = Report.Event.Kind.JOB_START;
    event.id = job;
    event.timeMs = 1_000L;
    event.job = "spark " + job;
    event.properties = Collections.emptyMap();
    int first = job * STAGES;
    event.stages =
        Arrays.asList(
            stage(first, TASKS + job),
            stage(first + 1, TASKS + job),
            stage(first + 2, TASKS, first, first + 1),
            stage(first + 3, 1, first + 2));
    return event;
  }

  private static Report.StageInfo stage(int number, int tasks, Integer... parents) {
    Report.StageInfo info = new Report.StageInfo();
    info.stage = number;
    info.numTasks = tasks;
    info.parents = Arrays.asList(parents);
    info.rdds = Collections.singletonList(number);
    return info;
  }
}
