package decima.spark;

import decima.policy.LiveJob;
import decima.policy.LiveJobs;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.ToIntFunction;

/** Status of a session, from one report to the next. */
final class Status {
  /** rates are over so many of the last seconds */
  private static final double RATE_S = 10.0;
  private static final int KEPT_PLANS = 10_000;
  private static final double NS_PER_S = 1e9;

  private final long beganNs = System.nanoTime();
  private Report report;
  private long heardNs = 0;
  /** by job: since when it has held no slot though a task waits, since the epoch */
  private Map<String, Long> unservedMs = new HashMap<>();
  /** of the newest plans: when, and how many stages they chose */
  private final ArrayDeque<double[]> plans = new ArrayDeque<>();

  /** Take in one report after the other. */
  synchronized void note(Report now) {
    report = now;
    heardNs = System.nanoTime();
    Map<String, Integer> held = held();
    Map<String, Long> since = new HashMap<>();
    waiting()
        .forEach(
            (job, tasks) -> {
              if (tasks > 0 && held.get(job) == 0) {
                since.put(job, unservedMs.getOrDefault(job, now.timeMs));
              }
            });
    unservedMs = since;
  }

  /** A plan was put in force. */
  synchronized void notePlan(int stages) {
    plans.add(new double[] {System.nanoTime() / NS_PER_S, stages});
    if (plans.size() > KEPT_PLANS) {
      plans.remove();
    }
  }

  /** Slots by job, with those of tasks whose results are not needed. */
  synchronized Map<String, Integer> held() {
    return byJob(set -> set.running);
  }

  /** Tasks that could start now, by job. */
  private Map<String, Integer> waiting() {
    return byJob(Report.TaskSet::waiting);
  }

  private Map<String, Integer> byJob(ToIntFunction<Report.TaskSet> count) {
    Map<String, Integer> sums = new LinkedHashMap<>();
    if (report != null) {
      report.sets.forEach(set -> sums.merge(set.job, count.applyAsInt(set), Integer::sum));
    }
    return sums;
  }

  private double plansPerSecond(double nowS) {
    double stages = 0.0;
    for (double[] plan : plans) {
      stages += plan[0] > nowS - RATE_S ? plan[1] : 0.0;
    }
    double firstS = plans.isEmpty() ? nowS : Math.max(plans.peek()[0], nowS - RATE_S);
    return stages / Math.max(1.0, nowS - firstS);
  }

  /** Put what is known into `out`, for `decima.spark.status`. */
  synchronized void fill(Map<String, Object> out, LiveJobs live, Map<String, Integer> limits) {
    double nowS = System.nanoTime() / NS_PER_S;
    out.put("held", held());
    out.put("limits", limits);
    out.put("slots", report == null ? 0 : report.slots);
    out.put("is_lapsed", report != null && report.lapsed);
    out.put("dropped_events", report == null ? 0 : report.dropped);
    out.put("decisions_per_s", plansPerSecond(nowS));
    out.put("uptime_s", nowS - beganNs / NS_PER_S);
    out.put("heard_s", report == null ? null : nowS - heardNs / NS_PER_S);
    out.put("jobs", report == null ? new ArrayList<>() : jobs(live, limits));
  }

  /** The jobs in the system by arrival: those with tasks, and those that Spark still plans for. */
  private List<Map<String, Object>> jobs(LiveJobs live, Map<String, Integer> limits) {
    Map<String, LiveJob> known = new LinkedHashMap<>();
    Map<String, Integer> held = held();
    Map<String, Integer> waiting = waiting();
    Set<String> keys = new LinkedHashSet<>(held.keySet());
    for (LiveJob job : live.known()) {
      known.put(job.key, job);
      if (job.isActive()) {
        keys.add(job.key);
      }
    }
    List<Map<String, Object>> rows = new ArrayList<>();
    for (String key : keys) {
      LiveJob job = known.get(key);
      Map<String, Object> row = new LinkedHashMap<>();
      row.put("key", key);
      row.put("name", job == null ? key : job.name());
      row.put("held", held.getOrDefault(key, 0));
      row.put("limit", limits.get(key));
      row.put("waiting_tasks", waiting.getOrDefault(key, 0));
      row.put("age_s", job == null ? null : seconds(report.timeMs - job.arrivalMs));
      Long since = unservedMs.get(key);
      row.put("unserved_s", since == null ? null : seconds(report.timeMs - since));
      rows.add(row);
    }
    return rows;
  }

  private static double seconds(long ms) {
    return Math.max(0L, ms) / 1_000.0;
  }
}
