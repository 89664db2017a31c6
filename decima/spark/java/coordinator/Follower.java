package decima.spark;

import decima.policy.Graphs;
import decima.policy.LiveJob;
import decima.policy.LiveJobs;
import decima.policy.RoundMessage;
import java.io.IOException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import org.apache.spark.SparkContext;

/**
 * Reports the application's work to a coordinator, and follows the number of executors that it
 * grants. Without a coordinator the application keeps what it holds; after a bound it returns to
 * Spark's own maximum, and connects again when it can.
 */
final class Follower {
  private static final long TICK_MS = 50;
  private static final long BEAT_MS = 1_000;
  private static final long PAUSE_MS = 1_000;
  private static final int MOST_ENDED = 1_000;
  private static final long MAX_TARGET = 1_000_000;

  private final Settings settings;
  private final SparkContext context;
  private final Executors executors;
  private final Graphs.Cache graphs = new Graphs.Cache();
  private final Thread reader = new Thread(this::read, "decima-coordinator");
  private final Thread follower = new Thread(this::follow, "decima-executors");
  private volatile CoordinatorSocket socket;
  private volatile boolean isClosed = false;
  /** -1: none has come, or it is not followed any more */
  private volatile int target = -1;
  private volatile long number = 0;
  private volatile long heardNs = System.nanoTime();
  /** guarded by this, as the next ones */
  private Map<String, Object> stages = null;
  private boolean isNews = false;
  private List<Map<String, Object>> ended = new ArrayList<>();
  private boolean isWarned = false;

  /** @throws SettingsError the executors of this application cannot be requested. */
  Follower(Settings settings, Control control) {
    this.settings = settings;
    context = control.context;
    executors = new Executors(control);
    reader.setDaemon(true);
    follower.setDaemon(true);
  }

  void start() {
    reader.start();
    follower.start();
  }

  /** Executors that are granted; -1: no coordinator decides. */
  int granted() {
    return target;
  }

  boolean isConnected() {
    return socket != null;
  }

  /** Take in the work of now. */
  void note(LiveJobs live) {
    Map<String, Object> now = RoundMessage.of(live, graphs);
    synchronized (this) {
      // Time alone is no news.
      isNews = isNews || !isSame(stages, now);
      stages = now;
      for (LiveJob job : live.ended) {
        if (ended.size() < MOST_ENDED) {
          ended.add(job.row());
        }
      }
    }
  }

  private static boolean isSame(Map<String, Object> earlier, Map<String, Object> now) {
    if (earlier == null || now == null) {
      return earlier == now;
    }
    for (String column : new String[] {"num_tasks", "launched", "finished", "runnable"}) {
      if (!Objects.deepEquals(earlier.get(column), now.get(column))) {
        return false;
      }
    }
    return true;
  }

  // --- the connection ------------------------------------------------------------------------

  private void read() {
    while (!isOver()) {
      try (CoordinatorSocket made = new CoordinatorSocket(settings)) {
        made.send(registration());
        socket = made;
        Map<?, ?> message = made.receive();
        while (message != null && !isOver()) {
          take(message);
          message = made.receive();
        }
        throw new IOException("it hung up");
      } catch (Exception fault) {
        socket = null;
        warn(fault);
      }
      pause(PAUSE_MS);
    }
  }

  private void warn(Exception fault) {
    if (isOver()) {
      return;
    }
    synchronized (this) {
      if (isWarned) {
        DecimaPlugin.LOG.debug("coordinator", fault);
        return;
      }
      isWarned = true;
    }
    DecimaPlugin.LOG.warn(
        "coordinator {}: {}; the application keeps its executors, and after {} s Spark's own"
            + " maximum holds",
        settings.coordinator, fault.getMessage(), settings.coordinatorPatienceMs / 1_000);
  }

  private Map<String, Object> registration() {
    Map<String, Object> message = new LinkedHashMap<>();
    message.put("id", context.applicationId());
    message.put("name", context.appName());
    message.put("user", context.sparkUser());
    message.put("queue", settings.queue);
    message.put("weight", settings.weight);
    message.put("most", executors.most);
    message.put("tasks", executors.tasks);
    message.put("held", Math.max(0, target));
    return message;
  }

  private void take(Map<?, ?> message) throws IOException {
    heardNs = System.nanoTime();
    if (message.get("refused") != null) {
      throw new IOException(String.valueOf(message.get("refused")));
    }
    if (message.get("welcome") != null) {
      DecimaPlugin.LOG.info("coordinator {}: connected", settings.coordinator);
      synchronized (this) {
        isWarned = false;
        isNews = true;
      }
    }
    Object granted = message.get("target");
    if (granted == null) {
      return;
    }
    long wanted = granted instanceof Integer ? (Integer) granted : -1;
    if (wanted < 0 || wanted > MAX_TARGET || !(message.get("number") instanceof Number)) {
      throw new IOException("a target of " + granted + " executors");
    }
    target = (int) Math.min(wanted, executors.most);
    number = ((Number) message.get("number")).longValue();
    follower.interrupt(); // it follows at once
  }

  // --- the executors -------------------------------------------------------------------------

  private void follow() {
    int requested = -1;
    int reported = -1;
    long sentNs = 0;
    while (!isOver()) {
      try {
        long silentNs = System.nanoTime() - heardNs;
        boolean isOverdue = silentNs > settings.coordinatorPatienceMs * 1_000_000L;
        if (target >= 0 && socket == null && isOverdue) {
          release();
          requested = -1;
        }
        int wanted = target;
        if (wanted >= 0) {
          if (wanted != requested && executors.request(wanted)) {
            requested = wanted;
          }
          executors.reduceTo(wanted);
        }
        int registered = executors.registered();
        boolean isDue = System.nanoTime() - sentNs > BEAT_MS * 1_000_000L;
        if (isDue || isNews || registered != reported) {
          if (report(registered)) {
            reported = registered;
            sentNs = System.nanoTime();
          }
        }
      } catch (Exception fault) {
        DecimaPlugin.LOG.debug("following the coordinator", fault); // Spark stops, or lost something
      }
      pause(TICK_MS);
    }
  }

  private void release() {
    target = -1;
    executors.release();
    DecimaPlugin.LOG.warn(
        "coordinator {}: away for {} s, Spark's own maximum holds until it is back",
        settings.coordinator, settings.coordinatorPatienceMs / 1_000);
  }

  private boolean report(int registered) throws IOException {
    CoordinatorSocket to = socket;
    if (to == null) {
      return false;
    }
    Map<String, Object> message = new LinkedHashMap<>();
    List<Map<String, Object>> sent;
    synchronized (this) {
      sent = ended;
      ended = new ArrayList<>();
      message.put("stages", stages);
      message.put("ended", sent);
      message.put("is_beat", !isNews);
      isNews = false;
    }
    message.put("registered", registered);
    message.put("number", number);
    try {
      to.send(message);
    } catch (IOException fault) {
      synchronized (this) {
        isNews = true;
        sent.addAll(ended); // all of them once it is back
        ended = sent;
      }
      throw fault;
    }
    return true;
  }

  private boolean isOver() {
    return isClosed || context.isStopped();
  }

  private static void pause(long ms) {
    try {
      Thread.sleep(ms);
    } catch (InterruptedException now) {
      // there is something to do
    }
  }

  /** Stop following: Spark's own maximum applies. May be called twice. */
  void close() {
    if (isClosed) {
      return;
    }
    isClosed = true;
    CoordinatorSocket open = socket;
    if (open != null) {
      open.close();
    }
    if (target >= 0 && !context.isStopped()) {
      executors.release();
    }
  }
}
