package decima.policy;

import decima.spark.Lines;
import decima.spark.Plan;
import decima.spark.Report;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;

/**
 * For tests: a live session, one line of JSON after the other. `{"begin": ...}` starts another one,
 * `{"priors": ...}` hands it earlier runs, `{"report": ..., "ask": [...]}` returns the parts in `ask`;
 * `{"due": ...}` returns whether a report calls for a plan, `{"properties": ...}` the names of a Spark
 * job with those.
 */
public final class DriveSession {
  private static DriveSession session = null;

  private final LiveJobs live = new LiveJobs();
  private final Due due = new Due();
  private final Graphs.Cache graphs = new Graphs.Cache();
  private final Planner planner;
  private Plan plan;

  private DriveSession(Map<String, ?> begin) {
    Object policy = begin.get("policy");
    planner =
        new Planner(
            policy instanceof String
                ? Policies.named((String) policy, null)
                : new Scripted((List<?>) policy),
            ((Number) begin.get("starve_ms")).doubleValue(),
            ((Number) begin.get("idle_ms")).doubleValue());
  }

  public static void main(String[] arguments) throws Exception {
    Lines.answer(DriveSession::answer);
  }

  @SuppressWarnings("unchecked")
  private static Object answer(Map<String, Object> told) throws Exception {
    if (told.containsKey("begin")) {
      session = new DriveSession((Map<String, ?>) told.get("begin"));
      return null;
    }
    if (told.containsKey("priors")) {
      session.live.setPriors(Priors.of((Map<String, ?>) told.get("priors")));
      return null;
    }
    if (told.containsKey("policies")) {
      return Policies.NAMES;
    }
    if (told.containsKey("properties")) {
      return names((Map<?, ?>) told.get("properties"));
    }
    if (told.containsKey("due")) {
      Plan inForce = told.get("plan") == null ? null : plan((Map<String, ?>) told.get("plan"));
      Report report = Lines.MAPPER.convertValue(told.get("due"), Report.class);
      return session.due.isDue(report, inForce, report.timeMs * 1_000_000L);
    }
    Report report = Lines.MAPPER.convertValue(told.get("report"), Report.class);
    return session.answer(report, (List<String>) told.get("ask"));
  }

  /** The key of Spark job 5, and its queries, each with whether a person gave the name. */
  private static List<Object> names(Map<?, ?> given) throws Exception {
    Properties properties = new Properties();
    properties.putAll(given);
    java.lang.reflect.Method jobOf =
        Class.forName("decima.spark.Owners").getDeclaredMethod("jobOf", Properties.class, int.class);
    jobOf.setAccessible(true);
    List<Object> queries = new ArrayList<>();
    Queries.of(given).forEach(query -> queries.add(Arrays.asList(query.name, query.isGiven)));
    return Arrays.asList(jobOf.invoke(null, properties, 5), queries);
  }

  @SuppressWarnings("unchecked")
  private static Plan plan(Map<String, ?> given) {
    List<Integer> chosen = (List<Integer>) given.get("chosen");
    List<Integer> considered = (List<Integer>) given.get("considered");
    Map<String, Integer> limits = (Map<String, Integer>) given.get("limits");
    Map<String, Integer> pools = new LinkedHashMap<>();
    if (given.get("pools") != null) {
      pools.putAll((Map<String, Integer>) given.get("pools"));
    }
    return new Plan(chosen, limits, pools, considered, "test", null);
  }

  private Map<String, Object> answer(Report report, List<String> asked) {
    live.update(report);
    Map<String, Object> found = new LinkedHashMap<>();
    for (String name : asked) {
      switch (name) {
        case "jobs":
          found.put("jobs", jobs(live.known()));
          found.put("active", keys(live.active()));
          break;
        case "ends":
          found.put("ended", rows(live.ended));
          found.put("forgotten", rows(live.forgotten));
          found.put("unreported", rows(live.unreported()));
          break;
        case "sums":
          found.put("version", live.version);
          found.put("typical_ms", live.typicalMs());
          found.put("matches", new int[] {live.priorHits(), live.priorMisses()});
          break;
        case "first":
          found.put("first", planner.first(live));
          break;
        case "tables":
          LiveTables tables = LiveTables.of(live, graphs);
          found.put("tables", tables == null ? null : columns(tables));
          found.put("lost", live.lostSlots);
          break;
        default:
          found.put("is_due", due.isDue(report, plan, report.timeMs * 1_000_000L));
          found.put("plan", planned(report));
          found.put("failures", planner.failures);
          found.put("in_a_row", planner.failuresInARow);
          found.put("starved", planner.starved);
      }
    }
    return found;
  }

  private Map<String, Object> planned(Report report) {
    Plan made = planner.plan(live, report.idleMs, report.idleSlots);
    if (made == null) {
      return null;
    }
    plan = made;
    Map<String, Object> found = new LinkedHashMap<>();
    found.put("limits", made.limits);
    if (!made.pools.isEmpty()) {
      found.put("pools", made.pools);
    }
    found.put("chosen", made.chosen);
    found.put("others", made.leftOut);
    found.put("by", made.by);
    found.put("fault", made.fault);
    return found;
  }

  // --- jobs ----------------------------------------------------------------------------------

  private static List<String> keys(List<LiveJob> jobs) {
    List<String> found = new ArrayList<>();
    jobs.forEach(job -> found.add(job.key));
    return found;
  }

  private static List<Map<String, Object>> rows(List<LiveJob> jobs) {
    List<Map<String, Object>> found = new ArrayList<>();
    jobs.forEach(job -> found.add(job.row()));
    return found;
  }

  /** Rows of the decision log, with columns of the stages in place of these. */
  private List<Map<String, Object>> jobs(List<LiveJob> jobs) {
    List<Map<String, Object>> found = rows(jobs);
    for (int job = 0; job < jobs.size(); job++) {
      List<LiveJob.Stage> stages = jobs.get(job).stages;
      Map<String, Object> row = found.get(job);
      row.put("stages", stages.size());
      put(row, "num_tasks", stages, stage -> stage.numTasks);
      put(row, "all_tasks", stages, stage -> stage.allTasks);
      put(row, "launched", stages, stage -> stage.launched());
      put(row, "is_done", stages, stage -> stage.isDone);
      put(row, "is_submitted", stages, stage -> stage.isSubmitted);
      put(row, "parents", stages, stage -> stage.parents);
      put(row, "match", stages, stage -> stage.prior == null ? null : stage.prior.match);
      put(row, "mean_ms", stages, stage -> live.durations.meanMs(stage));
    }
    return found;
  }

  private static void put(
      Map<String, Object> row,
      String name,
      List<LiveJob.Stage> stages,
      java.util.function.Function<LiveJob.Stage, Object> column) {
    List<Object> found = new ArrayList<>();
    stages.forEach(stage -> found.add(column.apply(stage)));
    row.put(name, found);
  }

  // --- tables --------------------------------------------------------------------------------

  private static Map<String, Object> columns(LiveTables tables) {
    Round round = new Round(tables);
    Map<String, Object> found = new LinkedHashMap<>();
    found.put("time_ms", tables.timeMs);
    found.put("last_arrival_ms", tables.lastArrivalMs);
    found.put("mean_gap_ms", tables.meanGapMs);
    found.put("typical_ms", tables.typicalMs);
    found.put("inflation", tables.inflation);
    found.put("num_executors", tables.slots);
    found.put("on_offer", round.onOffer);
    found.put("keys", keys(tables.jobs));
    found.put("first_stage", tables.firstStage);
    found.put("arrival_ms", tables.arrivalMs);
    found.put("work_ms", tables.workMs);
    found.put("remaining_ms", tables.remainingMs);
    found.put("held", round.held);
    found.put("local", round.local);
    found.put("open_stages", round.openStages);
    int[] rows = java.util.stream.IntStream.range(0, tables.stages()).toArray();
    found.put("spark_stage", tables.sparkStages(rows));
    found.put("num_tasks", tables.numTasks);
    found.put("launched", tables.launched);
    found.put("finished", tables.finished);
    found.put("covered", round.covered);
    found.put("runnable", tables.runnable);
    found.put("open", round.open);
    found.put("mean_ms", tables.meanMs);
    found.put("critical_path_ms", tables.criticalPathMs);
    found.put("graphs", System.identityHashCode(tables.graphs));
    found.put("first_child", tables.graphs.firstChild);
    found.put("children", tables.graphs.children);
    return found;
  }

  // --- a policy that does as it is asked -----------------------------------------------------

  /** Each answer once, and the last one for ever: a stage and a limit, null, or a word. */
  private static final class Scripted implements Policy {
    private final List<?> script;
    private int next = 0;

    private Scripted(List<?> script) {
      this.script = script;
    }

    @Override
    public String name() {
      return "scripted";
    }

    @Override
    public Action decide(Round round) {
      Object word = script.get(Math.min(next++, script.size() - 1));
      if (word instanceof List) {
        List<?> action = (List<?>) word;
        return new Action((Integer) action.get(0), (Integer) action.get(1));
      }
      switch (String.valueOf(word)) {
        case "raise":
          throw new IllegalStateException("asked to fail");
        case "pass":
          return Action.PASS;
        case "one": // slot for the first stage
          int stage = 0;
          while (!round.isOpen(stage)) {
            stage += 1;
          }
          return new Action(stage, 1);
        case "fifo":
          return new Fifo().decide(round);
        default:
          return null;
      }
    }
  }
}
