package decima.spark;

import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.SecureRandom;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * The Python process that decides by a learned policy (`decima.spark.plugin_worker`): started, watched
 * and started again. It connects to us over loopback and says a secret first; then it asks for news and
 * hands over plans, as an attached driver would. While it is not there, or silent, the JVM decides.
 */
final class Worker {
  private static final int CAPACITY = 100_000;
  private static final int SECRET_BYTES = 32;
  private static final int MAX_STARTS = 5;
  private static final long FIRST_PAUSE_MS = 1_000;
  private static final int HELLO_MS = 10_000;
  /** what a stop signal gets before the process is killed */
  private static final long END_MS = 2_000;

  private final Settings settings;
  private final Control control;
  private final String secret = newSecret();
  private final Thread watcher = new Thread(this::watch, "decima-worker");
  private ServerSocket server;
  private Decider decider;
  private volatile Process process;
  private volatile Socket connection;
  private volatile long heardNs = 0;
  private volatile boolean isReady = false;
  private volatile boolean isClosed = false;
  /** so often a process was started */
  volatile int starts = 0;

  Worker(Settings settings, Control control) {
    this.settings = settings;
    this.control = control;
  }

  private static String newSecret() {
    byte[] random = new byte[SECRET_BYTES];
    new SecureRandom().nextBytes(random);
    StringBuilder found = new StringBuilder();
    for (byte one : random) {
      found.append(String.format("%02x", one));
    }
    return found.toString();
  }

  /**
   * Start the first process.
   *
   * @throws IOException there is no such Python.
   */
  void start(Decider with) throws IOException {
    decider = with;
    server = new ServerSocket(0, 1, InetAddress.getLoopbackAddress());
    process = newProcess();
    watcher.setDaemon(true);
    watcher.start();
  }

  private Process newProcess() throws IOException {
    starts += 1;
    ProcessBuilder builder =
        new ProcessBuilder(settings.python, "-P", "-m", "decima.spark.plugin_worker");
    builder.environment().put("DECIMA_PLUGIN_PORT", String.valueOf(server.getLocalPort()));
    builder.environment().put("DECIMA_PLUGIN_SECRET", secret);
    // Our standard output may be a query's result: nothing of the process goes there.
    builder.redirectOutput(new java.io.File("/dev/null"));
    builder.redirectError(ProcessBuilder.Redirect.INHERIT);
    Process made = builder.start();
    made.getOutputStream().close();
    return made;
  }

  /** Whether the process makes the plans now: it is ready, and not silent. */
  boolean decides() {
    return isReady && System.nanoTime() - heardNs < control.lapseNs;
  }

  // --- the thread ----------------------------------------------------------------------------

  private void watch() {
    long pauseMs = FIRST_PAUSE_MS;
    while (!isClosed) {
      String ended = serveOne();
      isReady = false;
      if (settings.beginsInSparkOrder()) {
        control.leaveToSpark(true);
      }
      if (isClosed || control.context.isStopped()) {
        return;
      }
      if (starts >= MAX_STARTS) {
        DriverSide.LOG.warn("{}; it is not started again: {} decides", ended, settings.standIn());
        return;
      }
      DriverSide.LOG.warn("{}; {} decides until it is back", ended, settings.standIn());
      try {
        Thread.sleep(pauseMs);
        pauseMs *= 2;
        process = newProcess();
      } catch (IOException | InterruptedException error) {
        DriverSide.LOG.warn("the worker cannot be started again: {}", error.toString());
        return;
      }
    }
  }

  /** Serve a process from its first word to its end; why it ended. */
  private String serveOne() {
    Reader reader = control.news.newReader(CAPACITY);
    try (Socket end = accept()) {
      connection = end;
      DriverSide.LOG.info("the worker process {} is there", settings.python);
      while (!isClosed) {
        Map<?, ?> request = Frames.read(end.getInputStream());
        if (request == null) {
          break;
        }
        Frames.write(end.getOutputStream(), answer(request, reader));
        heardNs = System.nanoTime();
      }
      return "the worker process ended";
    } catch (Exception error) {
      return "the worker process: " + error.getMessage();
    } finally {
      control.news.forget(reader);
      kill();
    }
  }

  /** The connection of our process; others, who do not know the secret, are turned away. */
  private Socket accept() throws IOException {
    server.setSoTimeout(HELLO_MS / 10);
    while (true) {
      Socket end;
      try {
        end = server.accept();
      } catch (java.net.SocketTimeoutException nobody) {
        if (!process.isAlive()) {
          throw new IOException("ended before it said a word (exit code " + process.exitValue() + ")");
        }
        continue;
      }
      end.setTcpNoDelay(true);
      end.setSoTimeout(HELLO_MS);
      try {
        Map<?, ?> hello = Frames.read(end.getInputStream());
        if (hello != null && isSecret(String.valueOf(hello.get("secret")))) {
          end.setSoTimeout(0);
          Frames.write(end.getOutputStream(), settingsOfWorker());
          return end;
        }
      } catch (IOException unknown) {
        DriverSide.LOG.debug("somebody else connected", unknown);
      }
      end.close();
    }
  }

  private boolean isSecret(String told) {
    return MessageDigest.isEqual(
        told.getBytes(StandardCharsets.UTF_8), secret.getBytes(StandardCharsets.UTF_8));
  }

  private Map<String, ?> settingsOfWorker() {
    Map<String, Object> found = new LinkedHashMap<>();
    found.put("policy", settings.policy);
    found.put("parameters", settings.parameters);
    found.put("mode", settings.mode);
    found.put("priors", settings.priors);
    found.put("decision_log", settings.decisionLog);
    found.put("starve_s", settings.starveMs / 1000.0);
    found.put("idle_s", settings.idleMs / 1000.0);
    found.put("auto_every_s", settings.autoEveryMs / 1000.0);
    found.put("fair", control.context.getSchedulingMode().toString().equals("FAIR"));
    return found;
  }

  private Map<?, ?> answer(Map<?, ?> request, Reader reader) throws Exception {
    String call = String.valueOf(request.get("call"));
    switch (call) {
      case "wait":
        return control.await(reader, ((Number) request.get("timeout_ms")).longValue());
      case "apply":
        return apply((Map<?, ?>) request.get("plan"));
      case "leave_to_spark":
        control.leaveToSpark(Boolean.TRUE.equals(request.get("is_left")));
        return Collections.emptyMap();
      case "counters":
        return control.counters.now(control);
      case "refused":
        decider.refuse(String.valueOf(request.get("reason")));
        return Collections.emptyMap();
      default:
        throw new IOException("it asked for '" + call + "'");
    }
  }

  @SuppressWarnings("unchecked")
  private Map<?, ?> apply(Map<?, ?> plan) {
    Map<String, Object> told = new LinkedHashMap<>((Map<String, ?>) plan);
    if (!settings.caps.isEmpty()) {
      // It knows nothing of caps: what they keep from its stages goes to those that it left out.
      List<Object> all = new ArrayList<>((List<?>) told.get("chosen"));
      all.addAll((List<?>) told.get("others"));
      told.put("chosen", all);
      told.put("others", Collections.emptyList());
    }
    decider.apply(told);
    isReady = true;
    return Collections.emptyMap();
  }

  // --- ending --------------------------------------------------------------------------------

  private void kill() {
    Process own = process;
    if (own == null) {
      return;
    }
    own.destroy();
    try {
      if (!own.waitFor(END_MS, java.util.concurrent.TimeUnit.MILLISECONDS)) {
        own.destroyForcibly();
      }
    } catch (InterruptedException now) {
      own.destroyForcibly();
    }
  }

  /** End the process; twice does no harm. */
  void close() {
    isClosed = true;
    isReady = false;
    try {
      if (connection != null) {
        connection.close();
      }
      if (server != null) {
        server.close();
      }
    } catch (IOException error) {
      DriverSide.LOG.debug("closing", error);
    }
    if (Thread.currentThread() != watcher) {
      watcher.interrupt();
    }
    kill();
  }
}
