package decima.spark;

import java.util.Iterator;

/** The dead man's switch, and the end of a new task set's wait for its first decision. */
final class Watchdog extends Thread {
  private static final long TICK_MS = 25;
  /** after so many times `lapseNs` without a sign of life nobody will come back */
  private static final long ABANDONED = 30;
  private final Control control;

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
    if (now - control.beatNs > ABANDONED * control.lapseNs) {
      control.counters.abandoned.incrementAndGet();
      control.detach();
      return;
    }
    boolean isSilent = now - control.beatNs > control.lapseNs;
    if (isSilent) {
      control.session.countSlots(); // else done at each report
    }
    control.idleness.look();
    if (isSilent && !control.lapsed && control.idleness.ms() > 0) {
      control.lapsed = true;
      control.counters.lapses.incrementAndGet();
      control.revive();
    } else if (control.idleness.idle() > 0 && !control.observeOnly && isSomebodyLate(now)) {
      control.revive();
    }
  }

  /** Whether a task set may start tasks that it could not when slots were last offered. */
  private boolean isSomebodyLate(long now) {
    boolean found = false;
    control.forgetCrowd();
    for (Iterator all = control.watched.values().iterator(); all.hasNext(); ) {
      Watched set = (Watched) all.next();
      if (!set.expired
          && set.waiting() > 0
          && now - set.bornNs > control.holdNs / Control.SHARE_PART) {
        found = control.mayStart(set) || found;
      }
    }
    return found;
  }
}
