package decima.policy;

import com.fasterxml.jackson.core.JsonGenerator;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.PropertyNamingStrategies;
import decima.spark.Parts;
import decima.spark.Plan;
import decima.spark.Report;
import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;

/**
 * For tests: a live session and other parts of the plugin. Each line of JSON is a question, whose
 * first key says which one, and is answered with another line.
 */
public final class DriveSession {
  private static final ObjectMapper MAPPER =
      new ObjectMapper()
          .configure(JsonGenerator.Feature.ESCAPE_NON_ASCII, true)
          .setPropertyNamingStrategy(PropertyNamingStrategies.SNAKE_CASE);
  private static DriveSession session = null;

  private final LiveJobs live = new LiveJobs();
  private final Due due = new Due();
  private final Graphs.Cache graphs = new Graphs.Cache();
  private final Planner planner;
  private Plan plan;

  private DriveSession(Policy policy, Map<String, ?> begin) {
    planner =
        new Planner(
            policy,
            ((Number) begin.get("starve_ms")).doubleValue(),
            ((Number) begin.get("idle_ms")).doubleValue());
  }

  @SuppressWarnings("unchecked")
  public static void main(String[] arguments) throws Exception {
    BufferedReader in =
        new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      Object answer = answer((Map<String, Object>) MAPPER.readValue(line, Map.class));
      System.out.println(MAPPER.writeValueAsString(answer));
      System.out.flush();
    }
  }

  @SuppressWarnings("unchecked")
  private static Object answer(Map<String, Object> told) throws Exception {
    String question = told.keySet().iterator().next();
    Object given = told.get(question);
    switch (question) {
      case "begin": // another session
        session = new DriveSession(policy(given), told);
        return null;
      case "refused": // why a policy is, or null
        try {
          String file = (String) told.get("parameters");
          Policies.named((String) given, file == null ? null : Policies.content(new File(file)));
          return null;
        } catch (IllegalArgumentException refused) {
          return refused.getMessage();
        }
      case "priors": // earlier runs, for the session
        session.live.setPriors(Priors.of((Map<String, ?>) given));
        return null;
      case "report": // of the session; the parts of the answer are named in "ask"
        return session.answer(report(given), (List<String>) told.get("ask"));
      case "due": // whether a report calls for a plan
        Plan inForce = told.get("plan") == null ? null : plan((Map<String, ?>) told.get("plan"));
        Report now = report(given);
        return session.due.isDue(now, inForce, now.timeMs * 1_000_000L);
      case "policies":
        return Policies.NAMES;
      case "properties": // the key of a Spark job, and its queries: whether a person gave the name
        Properties properties = new Properties();
        properties.putAll((Map<?, ?>) given);
        List<Object> queries = new ArrayList<>();
        Queries.of((Map<?, ?>) given)
            .forEach(query -> queries.add(Arrays.asList(query.name, query.isGiven)));
        return Arrays.asList(Parts.job(properties), queries);
      case "settings":
        return Parts.refusal((Map<String, String>) given);
      case "pause":
        return Parts.endsPause((String) given);
      case "statuses":
        List<Report> reports = new ArrayList<>();
        ((List<?>) given).forEach(one -> reports.add(report(one)));
        return Parts.statuses(reports, (Map<String, Integer>) told.get("limits"));
      case "log":
        return Parts.begin((Map<?, ?>) given, MAPPER.writeValueAsString(told.get("header")));
      default: // lines of the log
        return Parts.write((List<String>) given);
    }
  }

  private static Policy policy(Object given) {
    return given instanceof String
        ? Policies.named((String) given, null)
        : new Scripted((List<?>) given);
  }

  private static Report report(Object given) {
    return MAPPER.convertValue(given, Report.class);
  }

  @SuppressWarnings("unchecked")
  private static Plan plan(Map<String, ?> given) {
    Map<String, Integer> pools = (Map<String, Integer>) given.get("pools");
    return new Plan(
        (List<Integer>) given.get("chosen"),
        (Map<String, Integer>) given.get("limits"),
        pools == null ? new LinkedHashMap<>() : pools,
        (List<Integer>) given.get("considered"),
        "test",
        null);
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
    Map<String, Object> found = RoundMessage.of(round);
    found.put("graphs", System.identityHashCode(tables.graphs));
    found.put("keys", keys(tables.jobs));
    found.put("on_offer", round.onOffer);
    found.put("held", round.held);
    found.put("local", round.local);
    found.put("open_stages", round.openStages);
    int[] rows = java.util.stream.IntStream.range(0, tables.stages()).toArray();
    found.put("spark_stage", tables.sparkStages(rows));
    found.put("covered", round.covered);
    found.put("open", round.open);
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
