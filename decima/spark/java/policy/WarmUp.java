package decima.policy;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Plans for jobs that do not exist, so that the first real plan finds compiled code. */
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
   * @param policy one that decides for nobody else: it may remember what it has seen.
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
    List<Object> events = new ArrayList<>();
    List<Object> sets = new ArrayList<>();
    for (int job = 0; job < jobs; job++) {
      if (step == 0) {
        events.add(begun(job));
      }
      int turns = (step + jobs - 1 - job) / jobs;
      for (int stage = 0; stage < 2; stage++) {
        int number = job * STAGES + stage;
        int done = Math.min(TASKS - 2, turns);
        int running = stage == 0 ? slots / jobs : 0;
        sets.add(
            Arrays.asList(
                number, 0, key(job), TASKS + job, done, Math.min(running, TASKS - done), false));
      }
    }
    int measured = (step % jobs) * STAGES;
    Map<String, Object> message = new HashMap<>();
    message.put("time_ms", 1_000L + step * TASK_MS);
    message.put("slots", slots);
    message.put("attached", true);
    message.put("idle_ms", 0);
    message.put("idle_slots", 0);
    message.put("sets", sets);
    message.put("events", events);
    message.put(
        "measured",
        Collections.singletonList(
            Arrays.asList(measured, 1, TASK_MS + measured, 1_000L, 1_000L + step * TASK_MS)));
    step += 1;
    return new Report(message);
  }

  private static String key(int job) {
    return "spark " + job;
  }

  /** The event of a job: two stages, a third that waits for both, and a fourth for that. */
  private static List<Object> begun(int job) {
    int first = job * STAGES;
    List<Object> stages =
        Arrays.asList(
            stage(first, TASKS + job),
            stage(first + 1, TASKS + job),
            stage(first + 2, TASKS, first, first + 1),
            stage(first + 3, 1, first + 2));
    return Arrays.asList("J", job, 1_000L, stages, Collections.emptyMap(), key(job));
  }

  private static List<Object> stage(int number, int tasks, Integer... parents) {
    return Arrays.asList(number, tasks, Arrays.asList(parents), Arrays.asList(number));
  }
}
