package decima.spark;

import com.codahale.metrics.Gauge;
import com.codahale.metrics.MetricRegistry;
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.Consumer;

/**
 * State and metrics of a session: each change of the state is logged and shown; metrics are there for
 * Spark's own sinks, and for Prometheus on loopback.
 */
final class Metrics {
  private static final long LOOK_MS = 1_000;
  private static final List<String> COUNTERS =
      Arrays.asList(
          "plans", "refused_offers", "launches_under_limit", "launches_over_limit",
          "launches_over_cap", "early_launches", "expired_holds", "lapses", "faults", "abandoned");

  /** the plugin's part of an offer round, in microseconds, over the newest thousand */
  private static final List<String> ROUNDS =
      Arrays.asList("offer_round_us_median", "offer_round_us_p99");

  volatile long startupMs = 0;
  private final Consumer<String> page;
  private volatile Decider decider;
  /** why the settings cannot be followed; null: they are */
  private volatile String refusal;
  /** the newest state in the log; null: none */
  private String logged;
  private Thread watcher;
  private HttpServer server;

  /** @param page receives each new state. */
  Metrics(Consumer<String> page) {
    this.page = page;
  }

  /** Take state and metrics of this decider; null: of none. */
  void of(Decider made) {
    decider = made;
  }

  // --- state ---------------------------------------------------------------------------------

  /** The settings cannot be followed, or not any more. */
  void refuse(String reason) {
    refusal = reason;
  }

  private SchedulingState state() {
    Decider now = decider;
    if (now == null) {
      return new SchedulingState(
          SchedulingState.Kind.NOTHING, refusal == null ? "it is not started" : refusal);
    }
    return now.state(refusal);
  }

  /** Log the state if it has changed, and show it. */
  synchronized void logState() {
    String state = state().toString();
    // The end of a session is no change to warn of; looked up after the state, which may name it.
    Decider now = decider;
    boolean hasEnded = now != null && now.control.context.isStopped();
    if (state.equals(logged) || hasEnded) {
      return;
    }
    logged = state;
    // No warning, but Spark's shells show nothing below: their users must see what schedules.
    DecimaPlugin.LOG.warn("decima: {}", state);
    page.accept(state);
  }

  /** Log each change from now on; may be called twice. */
  synchronized void watch() {
    if (watcher != null) {
      return;
    }
    Runnable look =
        () -> {
          try {
            while (true) {
              logState();
              Thread.sleep(LOOK_MS);
            }
          } catch (InterruptedException closing) {
            // closed
          }
        };
    watcher = new Thread(look, "decima-health");
    watcher.setDaemon(true);
    watcher.start();
  }

  // --- metrics -------------------------------------------------------------------------------

  /** Gauges by name, all in this state. */
  private Map<String, Number> gauges(SchedulingState state) {
    Decider now = decider;
    Follower follower = now == null ? null : now.follower;
    Map<String, Object> counters = counters();
    Map<String, Number> values = new LinkedHashMap<>();
    values.put("state", state.kind.ordinal());
    values.put("attached", flag(now != null && now.control.attached));
    values.put("schedules", flag(state.isPlanned()));
    values.put("refused", flag(refusal != null));
    values.put("decision_log", flag(now != null && now.isLogged()));
    values.put("worker", flag(now != null && now.asksPython()));
    values.put("coordinated", flag(follower != null && follower.isConnected()));
    values.put("executors_granted", follower == null ? -1 : follower.granted());
    values.put("startup_ms", startupMs);
    for (String name : ROUNDS) {
      values.put(name, (Number) counters.getOrDefault(name, 0.0));
    }
    return values;
  }

  private static int flag(boolean isSet) {
    return isSet ? 1 : 0;
  }

  /** To Spark's metrics, as `plugin.decima.spark.DecimaPlugin.NAME`. */
  void register(MetricRegistry registry) {
    for (String name : gauges(state()).keySet()) {
      registry.register(name, (Gauge<Number>) () -> gauges(state()).get(name));
    }
    registry.register("state_reason", (Gauge<String>) () -> state().toString());
    registry.register("fallbacks", (Gauge<Long>) this::fallbacks);
    for (String name : COUNTERS) {
      registry.register(name, (Gauge<Object>) () -> counters().getOrDefault(name, 0L));
    }
  }

  private long fallbacks() {
    Decider now = decider;
    return now == null || now.planner == null ? 0 : now.planner.fallbacks();
  }

  private Map<String, Object> counters() {
    Decider now = decider;
    return now == null ? Collections.emptyMap() : now.control.counters.now(now.control);
  }

  /**
   * Serve `/metrics` to this machine only; may be called twice.
   *
   * @param port 0: any that is free; -1: none.
   */
  void serve(int port) throws IOException {
    if (server != null || port < 0) {
      return;
    }
    InetAddress loopback = InetAddress.getByName("127.0.0.1");
    try {
      server = HttpServer.create(new InetSocketAddress(loopback, port), 0);
    } catch (IOException error) {
      throw new IOException("metrics port " + port + ": " + error.getMessage(), error);
    }
    server.createContext("/metrics", this::answer);
    server.start();
    DecimaPlugin.LOG.info("metrics: http://127.0.0.1:{}/metrics", server.getAddress().getPort());
  }

  private void answer(HttpExchange exchange) throws IOException {
    byte[] text = text().getBytes(StandardCharsets.UTF_8);
    exchange.getResponseHeaders().set("Content-Type", "text/plain; version=0.0.4; charset=utf-8");
    exchange.sendResponseHeaders(200, text.length);
    exchange.getResponseBody().write(text);
    exchange.close();
  }

  private String text() {
    StringBuilder out = new StringBuilder();
    SchedulingState state = state();
    gauges(state).forEach((name, value) -> add(out, "decima_" + name, "gauge", value));
    out.append("# TYPE decima_state_info gauge\n");
    out.append("decima_state_info{state=").append(quoted(state.kind.words));
    out.append(",reason=").append(quoted(state.reason)).append("} 1\n");
    Map<String, Object> counters = counters();
    for (String name : COUNTERS) {
      add(out, "decima_" + name + "_total", "counter", counters.getOrDefault(name, 0));
    }
    add(out, "decima_fallbacks_total", "counter", fallbacks());
    Decider now = decider;
    if (now != null) {
      addSession(out, now);
    }
    return out.toString();
  }

  private static void addSession(StringBuilder out, Decider decider) {
    long starved = decider.planner == null ? 0 : decider.planner.starved;
    add(out, "decima_starved_total", "counter", starved);
    out.append("# TYPE decima_plan_seconds gauge\n");
    for (String quantile : new String[] {"0.5", "0.9"}) {
      double seconds = decider.latencies.quantile(Double.parseDouble(quantile));
      out.append("decima_plan_seconds{quantile=\"").append(quantile).append("\"} ")
          .append(seconds).append('\n');
    }
    Map<String, Object> picture = decider.picture();
    add(out, "decima_dropped_events_total", "counter", picture.get("dropped_events"));
    out.append("# TYPE decima_priors_total counter\n");
    addLabelled(out, "decima_priors_total", "found", "yes", picture.get("prior_hits"));
    addLabelled(out, "decima_priors_total", "found", "no", picture.get("prior_misses"));
    Map<?, ?> choice = (Map<?, ?>) picture.get("choice");
    if (choice != null) {
      out.append("# TYPE decima_auto gauge\n");
      addLabelled(out, "decima_auto", "policy", String.valueOf(choice.get("policy")), 1);
      boolean isShadow = Boolean.TRUE.equals(choice.get("is_shadow"));
      add(out, "decima_auto_shadow", "gauge", isShadow ? 1 : 0);
    }
    addByJob(out, "decima_job_slots", new TreeMap<>(decider.status.held()));
    addByJob(out, "decima_job_limit", decider.limits());
  }

  private static void add(StringBuilder out, String name, String kind, Object value) {
    out.append("# TYPE ").append(name).append(' ').append(kind).append('\n');
    out.append(name).append(' ').append(value).append('\n');
  }

  private static void addByJob(StringBuilder out, String name, Map<String, Integer> values) {
    out.append("# TYPE ").append(name).append(" gauge\n");
    for (Map.Entry<String, Integer> job : values.entrySet()) {
      addLabelled(out, name, "job", job.getKey(), job.getValue());
    }
  }

  private static void addLabelled(
      StringBuilder out, String name, String label, String text, Object value) {
    out.append(name).append('{').append(label).append('=').append(quoted(text)).append("} ");
    out.append(value).append('\n');
  }

  private static String quoted(String text) {
    String escaped = text.replace("\\", "\\\\").replace("\"", "\\\"").replace("\n", "\\n");
    return '"' + escaped + '"';
  }

  void close() {
    synchronized (this) {
      if (watcher != null) {
        watcher.interrupt();
      }
    }
    if (server != null) {
      server.stop(0);
    }
  }
}
