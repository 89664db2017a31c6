package decima.policy;

import decima.spark.Plan;
import decima.spark.Report;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.util.Arrays;

/** For benchmarks/jvm_decisions.py: how long plans take inside the JVM, warm and cold. */
public final class DecisionSpeed {
  private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();
  private static final int WARM = 3_000;
  private static final int COUNTED = 400;

  public static void main(String[] arguments) {
    String policy = arguments[0];
    Policies.named(policy, null); // Spark has loaded its library for JSON already
    long began = now();
    Policy own = Policies.named(policy, null);
    System.out.printf("load_us %d%n", (now() - began) / 1_000);
    began = now();
    WarmUp.run(Policies.named(policy, null), Integer.parseInt(arguments[1]));
    System.out.printf("rehearsal_us %d%n", (now() - began) / 1_000);
    first(own);
    for (int index = 2; index < arguments.length; index++) {
      String[] size = arguments[index].split(":");
      warm(policy, Integer.parseInt(size[0]), Integer.parseInt(size[1]));
    }
  }

  /** CPU time of this thread: other programs make no difference. */
  private static long now() {
    return THREADS.getCurrentThreadCpuTime();
  }

  /** The first plan for a real session, from the report to the plan. */
  private static void first(Policy policy) {
    Planner planner = new Planner(policy, 60_000, 5_000);
    LiveJobs live = new LiveJobs();
    Report report = new WarmUp(4, 16).next();
    long began = now();
    live.update(report);
    Plan plan = planner.plan(live, 0, 0);
    System.out.printf("first_us %d%n", (now() - began) / 1_000);
    if (plan.fault != null) {
      throw new IllegalStateException(plan.fault);
    }
  }

  /** A session in which a task ends and another starts before each plan. */
  private static void warm(String name, int jobs, int slots) {
    Policy policy = Policies.named(name, null);
    WarmUp session = new WarmUp(jobs, slots);
    LiveJobs live = new LiveJobs();
    Graphs.Cache graphs = new Graphs.Cache();
    int warm = Math.max(100, WARM * 10 / jobs);
    double[][] us = new double[3][COUNTED];
    for (int plan = -warm; plan < COUNTED; plan++) {
      Report report = session.next();
      long began = now();
      live.update(report);
      long updated = now();
      LiveTables found = LiveTables.of(live, graphs);
      Round round = new Round(found);
      long filled = now();
      policy.fill(round);
      long decided = now();
      if (plan >= 0) {
        us[0][plan] = (updated - began) / 1e3;
        us[1][plan] = (filled - updated) / 1e3;
        us[2][plan] = (decided - filled) / 1e3;
      }
    }
    for (double[] part : us) {
      Arrays.sort(part);
    }
    System.out.printf(
        "jobs %d slots %d update %.1f tables %.1f decide %.1f decide_p99 %.1f%n",
        jobs, slots, us[0][COUNTED / 2], us[1][COUNTED / 2], us[2][COUNTED / 2],
        us[2][COUNTED * 99 / 100]);
  }
}
