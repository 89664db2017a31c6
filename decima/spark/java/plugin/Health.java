package decima.spark;

import java.util.function.Consumer;

/** The state of a session, from what decides at the moment; each change is logged and shown. */
final class Health {
  private static final long LOOK_MS = 1_000;

  private final Consumer<String> page;
  private volatile Decider decider;
  private volatile String refusal;
  /** the newest one in the log; null: none */
  private String logged;
  private Thread watcher;

  /** @param page receives each new state. */
  Health(Consumer<String> page) {
    this.page = page;
  }

  /** Take the state of this decider. */
  void of(Decider made) {
    decider = made;
  }

  /** What was asked for cannot be had, or not any more. */
  void refuse(String reason) {
    refusal = reason;
  }

  boolean isRefused() {
    return refusal != null;
  }

  SchedulingState now() {
    Decider asked = decider;
    if (asked == null) {
      return new SchedulingState(
          SchedulingState.Kind.NOTHING, refusal == null ? "it is not started" : refusal);
    }
    return asked.state(refusal);
  }

  /** Log the state if it has changed, and show it. */
  synchronized void tell() {
    String now = now().toString();
    // The end of a session is no change to warn of; looked up after the state, which may name it.
    Decider asked = decider;
    boolean hasEnded = asked != null && asked.control.context.isStopped();
    if (now.equals(logged) || hasEnded) {
      return;
    }
    logged = now;
    // No warning, but Spark's shells show nothing below: their users must see what schedules.
    DriverSide.LOG.warn("decima: {}", now);
    page.accept(now);
  }

  /** Log each change from now on; twice does no harm. */
  synchronized void watch() {
    if (watcher != null) {
      return;
    }
    watcher = new Thread(this::look, "decima-health");
    watcher.setDaemon(true);
    watcher.start();
  }

  private void look() {
    try {
      while (true) {
        tell();
        Thread.sleep(LOOK_MS);
      }
    } catch (InterruptedException closing) {
      // closed
    }
  }

  synchronized void close() {
    if (watcher != null) {
      watcher.interrupt();
    }
  }
}
