package decima.spark;

import decima.policy.LiveJob;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;

/**
 * The decision log: a JSON line for each plan, and one for each job when it is over, as
 * decima/spark/decision_log.py reads it. Each line is flushed, so that a crash loses none.
 */
final class DecisionLog {
  private final LogFiles lines;

  /**
   * Begin a log.
   *
   * @param parameters of the policy, where they are not those that the package ships; or null.
   * @param ran the policy in force; in shadow mode, Spark's own order.
   * @throws IOException the file cannot be written, or its path is a link.
   */
  DecisionLog(Settings settings, Map<?, ?> parameters, String ran) throws IOException {
    Map<String, Object> header = new LinkedHashMap<>();
    header.put("format", Json.shared("decision_log_format"));
    header.put("version", Json.shared("decision_log_version"));
    header.put("run", UUID.randomUUID().toString());
    header.put("mode", settings.mode);
    header.put("policy", settings.policy);
    Object values = parameters == null ? null : parameters.get("parameters");
    header.put("parameters", values == null ? new LinkedHashMap<>() : values);
    header.put("ran", ran);
    lines =
        new LogFiles(
            settings.decisionLog,
            settings.decisionLogBytes,
            settings.decisionLogFiles,
            Json.text(header));
  }

  /** @param appliedMs the plan came into force between these. */
  void plan(
      long number, Report report, Plan plan, long[] appliedMs, boolean isInForce)
      throws IOException {
    Map<String, Object> row = new LinkedHashMap<>();
    row.put("plan", number);
    row.put("time_ms", report.timeMs);
    row.put("applied_ms", appliedMs);
    row.put("slots", report.slots);
    row.put("by", plan.by);
    row.put("fault", plan.fault);
    List<Object> sets = new ArrayList<>();
    for (Report.TaskSet set : report.sets) {
      sets.add(
          Arrays.asList(
              set.stage, set.attempt, set.job, set.numTasks, set.successful, set.running,
              set.isZombie));
    }
    row.put("sets", sets);
    row.put("chosen", plan.chosen);
    row.put("limits", plan.limits);
    row.put("in_force", isInForce);
    lines.write(Json.text(row));
  }

  /** Write jobs that are over, or that run on after the end of the log. */
  void jobs(Iterable<LiveJob> jobs) throws IOException {
    for (LiveJob job : jobs) {
      lines.write(Json.text(job.row()));
    }
  }

  /** Whether lines are still written: a full disk or a lost folder ends it. */
  boolean isOpen() {
    return lines.isOpen();
  }

  void close() {
    lines.close();
  }
}
