package decima.spark;

import java.io.IOException;
import java.net.Socket;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.TimeUnit;

/**
 * The Python process that decides by a learned policy (`decima.spark.plugin_worker`): started, watched
 * and started again. It connects to our `WorkerSocket` with a secret; then it asks for events and
 * hands over plans, as an attached driver would. While it is not there, or silent, the JVM decides.
 */
final class Worker {
  private static final int CAPACITY = 100_000;
  private static final int MAX_STARTS = 5;
  private static final long FIRST_PAUSE_MS = 1_000;
  private static final long LOOK_MS = 200;
  /** what a stop signal gets before the process is killed */
  private static final long END_MS = 2_000;
  /** what the process gets to write the last jobs to its decision log */
  private static final long FLUSH_MS = 15_000;

  private final Settings settings;
  private final Control control;
  private final Thread watcher = new Thread(this::watch, "decima-worker");
  /** of the decision log: those of all its processes are one */
  private final String run = UUID.randomUUID().toString();
  private WorkerSocket socket;
  private Decider decider;
  private volatile Process process;
  private volatile long heardNs = 0;
  private volatile boolean isReady = false;
  /** no process is started any more */
  private volatile boolean isClosing = false;
  /** so often a process was started */
  private int starts = 0;

  Worker(Settings settings, Control control) {
    this.settings = settings;
    this.control = control;
  }

  /**
   * Start the first process.
   *
   * @throws IOException there is no such Python.
   */
  void start(Decider with) throws IOException {
    decider = with;
    socket = new WorkerSocket();
    process = newProcess();
    watcher.setDaemon(true);
    watcher.start();
  }

  private Process newProcess() throws IOException {
    starts += 1;
    ProcessBuilder builder =
        new ProcessBuilder(settings.python, "-P", "-m", "decima.spark.plugin_worker");
    builder.environment().put("DECIMA_PLUGIN_PORT", String.valueOf(socket.port()));
    builder.environment().put("DECIMA_PLUGIN_SECRET", socket.secret);
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
    try {
      serve();
    } finally {
      closeSocket();
    }
  }

  private void serve() {
    long pauseMs = FIRST_PAUSE_MS;
    while (true) {
      String ended = serveOne();
      isReady = false;
      if (isClosing || !control.isServed() || control.context.isStopped()) {
        return;
      }
      if (settings.beginsInSparkOrder()) {
        control.leaveToSpark(true);
      }
      if (heardNs == 0) {
        decider.refuse(settings.python + ": " + ended + "; is the package installed there?");
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
      } catch (InterruptedException closing) {
        return;
      } catch (IOException error) {
        DriverSide.LOG.warn("the worker cannot be started again: {}", error.toString());
        return;
      }
    }
  }

  /** Serve a process from its first word to its end; why it ended. */
  private String serveOne() {
    Reader reader = control.events.newReader(CAPACITY);
    try (Socket end = connection()) {
      DriverSide.LOG.info("the worker process {} is there", settings.python);
      Frames.write(end.getOutputStream(), settingsOfWorker());
      heardNs = System.nanoTime();
      while (true) {
        Map<?, ?> request = Frames.read(end.getInputStream());
        if (request == null) {
          return "the worker process ended";
        }
        Frames.write(end.getOutputStream(), answer(request, reader));
        heardNs = System.nanoTime();
      }
    } catch (Exception error) {
      return "the worker process: " + error.getMessage();
    } finally {
      control.events.forget(reader);
      kill();
    }
  }

  /** The connection of our process, once that is there. */
  private Socket connection() throws Exception {
    while (true) {
      Socket found = socket.poll(LOOK_MS);
      if (found != null) {
        return found;
      }
      if (!process.isAlive()) {
        throw new IOException("ended before it said a word (exit code " + process.exitValue() + ")");
      }
    }
  }

  private Map<String, ?> settingsOfWorker() {
    Map<String, Object> found = new LinkedHashMap<>();
    found.put("policy", settings.policy);
    found.put("parameters", settings.parameters);
    found.put("mode", settings.mode);
    found.put("priors", settings.priors);
    found.put("decision_log", settings.decisionLog);
    found.put("run", run);
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
    Map<String, Object> message = new LinkedHashMap<>((Map<String, ?>) plan);
    if (!settings.caps.isEmpty()) {
      // It knows nothing of caps: what they keep from its stages goes to those that it left out.
      List<Object> all = new ArrayList<>((List<?>) message.get("chosen"));
      all.addAll((List<?>) message.get("others"));
      message.put("chosen", all);
      message.put("others", Collections.emptyList());
    }
    decider.apply(message);
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
      if (!own.waitFor(END_MS, TimeUnit.MILLISECONDS)) {
        own.destroyForcibly();
      }
    } catch (InterruptedException now) {
      own.destroyForcibly();
    }
  }

  /**
   * End the process; twice does no harm. Reports tell it already that it is over: where it keeps a
   * decision log, it gets the time to write down what it has heard.
   */
  void close() {
    isClosing = true;
    isReady = false;
    Process own = process;
    if (Thread.currentThread() == watcher) {
      return; // which sees it out
    }
    try {
      if (own != null && settings.decisionLog != null && !own.waitFor(FLUSH_MS, TimeUnit.MILLISECONDS)) {
        DriverSide.LOG.warn(
            "{} may lack the last jobs: the worker did not end within {} s",
            settings.decisionLog, FLUSH_MS / 1_000);
      }
    } catch (InterruptedException now) {
      DriverSide.LOG.debug("closing", now);
    }
    kill();
    watcher.interrupt();
    closeSocket();
  }

  private void closeSocket() {
    try {
      if (socket != null) {
        socket.close();
      }
    } catch (IOException error) {
      DriverSide.LOG.debug("closing", error);
    }
  }
}
