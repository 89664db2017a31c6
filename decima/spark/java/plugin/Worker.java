package decima.spark;

import decima.policy.Priors;
import java.io.IOException;
import java.net.Socket;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;

/**
 * The Python that answers what the JVM cannot: the driver's own, or a process
 * (`decima.spark.plugin_worker`) that is started, watched and started again. It connects to the
 * `WorkerSocket` with a secret, reports that it is ready, and then answers questions. While it is not
 * there, or silent, the JVM decides.
 */
final class Worker {
  private static final int MAX_STARTS = 5;
  private static final long FIRST_PAUSE_MS = 1_000;
  private static final long LOOK_MS = 200;
  /** what a stop signal gets before the process is killed */
  private static final long END_MS = 2_000;

  private final Settings settings;
  private final Control control;
  private final Consumer<String> refuse;
  private final Consumer<Priors> takePriors;
  private WorkerSocket socket;
  private final Thread watcher = new Thread(this::watch, "decima-worker");
  private volatile Process process;
  private volatile WorkerLink link;
  /** why Python cannot answer */
  private volatile String awayBecause = "Python is starting";
  /** it has connected */
  private volatile boolean wasHeard = false;
  /** it is closed, or closing */
  private volatile boolean isClosing = false;
  /** it has done all that it was needed for */
  private boolean isDone = false;
  /** so often a process was started */
  private int starts = 0;

  /**
   * @param refuse receives the reason why its policy cannot be used, or Python cannot be started.
   * @param takePriors receives earlier runs, where the settings name some.
   */
  Worker(
      Settings settings, Control control, Consumer<String> refuse, Consumer<Priors> takePriors) {
    this.settings = settings;
    this.control = control;
    this.refuse = refuse;
    this.takePriors = takePriors;
    watcher.setDaemon(true);
  }

  /**
   * Start the first process, or wait for the driver's Python.
   *
   * @throws IOException there is no such Python.
   */
  void start() throws IOException {
    socket = new WorkerSocket();
    if (!isInDriver()) {
      process = newProcess();
    }
    watcher.start();
  }

  boolean isInDriver() {
    return settings.isInDriver;
  }

  int port() {
    return socket.port();
  }

  String secret() {
    return socket.secret;
  }

  /** Why `link` is null. */
  String awayBecause() {
    return awayBecause;
  }

  /** Connection to Python; null while it is not ready. */
  WorkerLink link() {
    return link;
  }

  /**
   * End a process that has not answered for as long as it may be silent.
   *
   * @param lapses so many times `lapse`.
   * @return whether it is a process, which is started anew.
   */
  boolean giveUpIfSilent(long sinceNs, int lapses) {
    WorkerLink asked = link;
    long boundNs = lapses * control.lapseNs;
    if (isInDriver() || asked == null || System.nanoTime() - sinceNs < boundNs) {
      return !isInDriver();
    }
    awayBecause = "the worker process has not answered for " + boundNs / 1e9 + " s";
    DecimaPlugin.LOG.warn(awayBecause);
    link = null;
    asked.close();
    return true;
  }

  private Process newProcess() throws IOException {
    starts += 1;
    ProcessBuilder builder =
        new ProcessBuilder(settings.python, "-P", "-m", "decima.spark.plugin_worker");
    builder.environment().put("DECIMA_PLUGIN_PORT", String.valueOf(socket.port()));
    builder.environment().put("DECIMA_PLUGIN_SECRET", socket.secret);
    // The driver's standard output may be a query's result: nothing of the process goes there.
    builder.redirectOutput(new java.io.File("/dev/null"));
    builder.redirectError(ProcessBuilder.Redirect.INHERIT);
    Process made = builder.start();
    made.getOutputStream().close();
    return made;
  }

  // --- the thread ----------------------------------------------------------------------------

  private void watch() {
    try {
      serve();
    } finally {
      Frames.close(socket);
    }
  }

  private void serve() {
    long pauseMs = FIRST_PAUSE_MS;
    while (true) {
      String ended = serveOne();
      awayBecause = ended;
      link = null;
      if (isOver() || isDone) {
        return;
      }
      if (isInDriver()) {
        refuse.accept("the Python that decides is gone");
        return;
      }
      if (!wasHeard) {
        refuse.accept(settings.python + ": " + ended + "; is the package installed there?");
        return;
      }
      if (starts >= MAX_STARTS) {
        DecimaPlugin.LOG.warn("{}; it is not started again: {} decides", ended, settings.standIn);
        return;
      }
      DecimaPlugin.LOG.warn("{}; {} decides until it is back", ended, settings.standIn);
      try {
        Thread.sleep(pauseMs);
        pauseMs *= 2;
        process = newProcess();
      } catch (InterruptedException closing) {
        return;
      } catch (IOException error) {
        DecimaPlugin.LOG.warn("the worker cannot be started again: {}", error.toString());
        return;
      }
    }
  }

  private boolean isOver() {
    return isClosing || !control.isServed() || control.context.isStopped();
  }

  /** Serve a Python from its first message to its end; returns why it ended. */
  private String serveOne() {
    try (Socket end = connection()) {
      wasHeard = true;
      Frames.write(end.getOutputStream(), settingsOfWorker());
      Map<?, ?> ready = Frames.read(end.getInputStream(), Frames.MAX_BYTES);
      if (ready == null) {
        return "the worker process ended before it was ready";
      }
      if (ready.get("refused") != null) {
        isDone = true;
        refuse.accept(String.valueOf(ready.get("refused")));
        return "it refused its policy";
      }
      if (ready.get("priors") instanceof Map) {
        takePriors.accept(Priors.of((Map<?, ?>) ready.get("priors")));
      }
      if (settings.isInside()) {
        isDone = true; // earlier runs were all that it was asked for
        return "it is not needed any more";
      }
      DecimaPlugin.LOG.info("the Python that decides is ready");
      WorkerLink made = new WorkerLink(end);
      link = made;
      try {
        made.run();
        return "the worker process ended";
      } catch (IOException reset) {
        return "the worker process ended (" + reset.getMessage() + ")";
      }
    } catch (Exception error) {
      return "the worker process: " + error.getMessage();
    } finally {
      link = null;
      kill();
    }
  }

  /** The connection of the Python that has the secret, once it is there. */
  private Socket connection() throws Exception {
    while (true) {
      Socket connection = socket.poll(LOOK_MS);
      if (connection != null) {
        return connection;
      }
      if (isOver()) {
        throw new IOException("the session is closing");
      }
      if (process != null && !process.isAlive()) {
        throw new IOException("ended before it said a word (exit code " + process.exitValue() + ")");
      }
    }
  }

  private Map<String, ?> settingsOfWorker() {
    Map<String, Object> message = new LinkedHashMap<>();
    message.put("policy", settings.policy);
    message.put("parameters", settings.parameters);
    message.put("priors", settings.priors);
    message.put("is_shadow", settings.isShadow());
    message.put("auto_every_s", settings.autoEveryMs / 1000.0);
    message.put("order", control.order());
    message.put("decides", !settings.isInside());
    return message;
  }

  // --- ending --------------------------------------------------------------------------------

  private void kill() {
    Process ending = process;
    if (ending == null) {
      return;
    }
    ending.destroy();
    try {
      if (!ending.waitFor(END_MS, TimeUnit.MILLISECONDS)) {
        ending.destroyForcibly();
      }
    } catch (InterruptedException now) {
      ending.destroyForcibly();
    }
  }

  /** Close the connection and end the process; may be called twice. */
  void close() {
    isClosing = true;
    WorkerLink asked = link;
    link = null;
    if (asked != null) {
      asked.close();
    }
    if (Thread.currentThread() == watcher) {
      return; // which sees the process out
    }
    kill();
    watcher.interrupt();
    Frames.close(socket);
  }
}
