package decima.spark;

/** Ends a plan whose planner is silent, and a new task set's wait for its first decision. */
final class Watchdog extends Thread {
  private static final long TICK_MS = 25;
  /** silence grows by at most so much a tick: a pause of the whole driver is no silence */
  private static final long MOST_TICK_NS = 100000000L;
  /** after so many times `lapseNs` without a heartbeat the planner is given up */
  private static final long ABANDONED = 30;
  /** ticks from one tidying to the next, where no reports are asked for */
  private static final long TIDY = 8;
  private final Control control;
  private long ticks = 0;
  private long lastNs = System.nanoTime();
  private long heardNs = 0;
  private long silentNs = 0;

  Watchdog(Control control) {
    super("decima-watchdog");
    setDaemon(true);
    this.control = control;
  }

  public void run() {
    while (control.attached && !control.context.isStopped()) {
      try {
        Thread.sleep(TICK_MS);
        look();
      } catch (InterruptedException stop) {
        return;
      } catch (Throwable fault) {
        control.counters.faults.incrementAndGet();
      }
    }
  }

  private void look() throws Exception {
    long now = System.nanoTime();
    measureSilence(now);
    if (silentNs > ABANDONED * control.lapseNs && !control.hasGivenUp) {
      control.abandon(silentNs);
      return;
    }
    control.letWaitingStart();
    boolean isSilent = silentNs > control.lapseNs;
    if (isSilent) {
      control.session.countSlots(); // else done at each report
      if (ticks++ % TIDY == 0) {
        control.session.tidy();
      }
    }
    control.session.countIdle();
    if (isSilent && !control.lapsed && control.session.wastedMs() > 0) {
      control.lapsed = true;
      control.counters.lapses.incrementAndGet();
      control.letWaitingStart();
      control.revive();
    } else if (control.session.idle() > 0 && !control.observeOnly && isSetLate(now)) {
      control.revive();
    }
  }

  /** Measure how long the planner has been silent. */
  private void measureSilence(long now) {
    if (control.beatNs != heardNs) {
      heardNs = control.beatNs;
      silentNs = 0;
    } else {
      silentNs += Math.min(now - lastNs, MOST_TICK_NS);
    }
    lastNs = now;
  }

  /** Whether a task set may start tasks that it could not when slots were last offered. */
  private boolean isSetLate(long now) {
    boolean mayStart = false;
    control.forgetContention();
    for (Limited set : control.watched.values()) {
      if (!set.expired
          && set.waiting() > 0
          && now - set.openNs() > control.holdNs / Control.SHARE_PART) {
        mayStart = control.mayStart(set) || mayStart;
      }
    }
    return mayStart;
  }
}
