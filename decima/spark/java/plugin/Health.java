package decima.spark;

import java.util.function.Consumer;

/** The state of a session, from what decides at the moment; each change is logged and shown. */
final class Health {
  private static final long LOOK_MS = 1_000;

  private final Consumer<String> page;
  private volatile Decider decider;
  private volatile String refusal;
  /** as it was last told; null: it was not */
  private String told;
  private Thread watcher;

  /** @param page receives each new state, for who shows it. */
  Health(Consumer<String> page) {
    this.page = page;
  }

  /** From now on the state is this one's. */
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

  /** Log the state if it is another one than was told last, and show it. */
  synchronized void tell() {
    String now = now().toString();
    // That a session has ended is no change to warn of; asked after the state, which may say so.
    if (now.equals(told) || hasEnded()) {
      return;
    }
    told = now;
    // No warning, but Spark's shells show nothing below: who uses them must see who schedules.
    DriverSide.LOG.warn("decima: {}", now);
    page.accept(now);
  }

  private boolean hasEnded() {
    Decider asked = decider;
    return asked != null && asked.control.context.isStopped();
  }

  /** Tell of each change from now on; twice does no harm. */
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
      // nobody asks any more
    }
  }

  synchronized void close() {
    if (watcher != null) {
      watcher.interrupt();
    }
  }
}
