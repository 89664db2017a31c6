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
import java.util.function.Supplier;

/** Metrics of a session: for Spark's own sinks, and for Prometheus on loopback. */
final class Metrics {
  private static final List<String> COUNTERS =
      Arrays.asList(
          "plans", "refused_offers", "launches_under_limit", "launches_over_limit",
          "launches_over_cap", "early_launches", "expired_holds", "lapses", "faults", "abandoned");

  /** the plugin's part of an offer round, in microseconds, over the newest thousand */
  private static final List<String> ROUNDS =
      Arrays.asList("offer_round_us_median", "offer_round_us_p99");

  final Health health;
  volatile long startupMs = 0;
  private volatile Decider decider;
  private HttpServer server;

  /** @param page receives each new state. */
  Metrics(Consumer<String> page) {
    health = new Health(page);
  }

  /** Take the metrics of this decider; null: of none. */
  void of(Decider made) {
    decider = made;
    health.of(made);
  }

  /** Gauges by name, without those of counters. */
  private Map<String, Supplier<Number>> gauges() {
    Map<String, Supplier<Number>> found = new LinkedHashMap<>();
    found.put("state", () -> health.now().kind.ordinal());
    found.put("attached", () -> flag(decider != null && decider.control.attached));
    found.put("schedules", () -> flag(health.now().isPlanned()));
    found.put("refused", () -> flag(health.isRefused()));
    found.put("decision_log", () -> flag(decider != null && decider.isLogged()));
    found.put("worker", () -> flag(decider != null && decider.asksPython()));
    found.put("coordinated", () -> flag(follower() != null && follower().isConnected()));
    found.put("executors_granted", () -> follower() == null ? -1 : follower().granted());
    found.put("startup_ms", () -> startupMs);
    for (String name : ROUNDS) {
      found.put(name, () -> (Number) counters().getOrDefault(name, 0.0));
    }
    return found;
  }

  private static int flag(boolean isSet) {
    return isSet ? 1 : 0;
  }

  private Follower follower() {
    return decider == null ? null : decider.follower();
  }

  /** To Spark's metrics, as `plugin.decima.spark.DecimaPlugin.NAME`. */
  void register(MetricRegistry registry) {
    gauges().forEach((name, value) -> registry.register(name, (Gauge<Number>) value::get));
    registry.register("state_reason", (Gauge<String>) () -> health.now().toString());
    registry.register("fallbacks", (Gauge<Long>) this::fallbacks);
    for (String name : COUNTERS) {
      registry.register(name, (Gauge<Object>) () -> counters().getOrDefault(name, 0L));
    }
  }

  private long fallbacks() {
    return decider == null || decider.planner == null ? 0 : decider.planner.fallbacks();
  }

  private Map<String, Object> counters() {
    return decider == null
        ? Collections.emptyMap()
        : decider.control.counters.now(decider.control);
  }

  /**
   * Serve `/metrics` to this machine only. Twice does no harm.
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
    DriverSide.LOG.info("metrics: http://127.0.0.1:{}/metrics", server.getAddress().getPort());
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
    SchedulingState state = health.now();
    gauges().forEach((name, value) -> add(out, "decima_" + name, "gauge", value.get()));
    out.append("# TYPE decima_state_info gauge\n");
    out.append("decima_state_info{state=").append(quoted(state.kind.words));
    out.append(",reason=").append(quoted(state.reason)).append("} 1\n");
    Map<String, Object> counters = counters();
    for (String name : COUNTERS) {
      add(out, "decima_" + name + "_total", "counter", counters.getOrDefault(name, 0));
    }
    add(out, "decima_fallbacks_total", "counter", fallbacks());
    if (decider != null) {
      addSession(out);
    }
    return out.toString();
  }

  private void addSession(StringBuilder out) {
    long starved = decider.planner == null ? 0 : decider.planner.starved;
    add(out, "decima_starved_total", "counter", starved);
    out.append("# TYPE decima_plan_seconds gauge\n");
    for (String quantile : new String[] {"0.5", "0.9"}) {
      double seconds = decider.latencies.quantile(Double.parseDouble(quantile));
      out.append("decima_plan_seconds{quantile=\"").append(quantile).append("\"} ")
          .append(seconds).append('\n');
    }
    Map<String, Object> now = decider.picture();
    add(out, "decima_dropped_events_total", "counter", now.get("dropped_events"));
    out.append("# TYPE decima_priors_total counter\n");
    addLabelled(out, "decima_priors_total", "found", "yes", now.get("prior_hits"));
    addLabelled(out, "decima_priors_total", "found", "no", now.get("prior_misses"));
    Map<?, ?> choice = (Map<?, ?>) now.get("choice");
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
    for (Map.Entry<String, Integer> one : values.entrySet()) {
      addLabelled(out, name, "job", one.getKey(), one.getValue());
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
    health.close();
    if (server != null) {
      server.stop(0);
    }
  }
}
