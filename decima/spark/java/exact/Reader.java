package decima.spark;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.spark.scheduler.TaskInfo;

/** Events that the planner has not read yet, and its waits for the next ones. */
final class Reader {
  private final LinkedBlockingQueue<Report.Event> events;
  private final AtomicLong dropped = new AtomicLong();
  /** by stage */
  private final Map<Integer, Report.Measured> measured = new HashMap<>();
  private boolean isDirty = true;
  /** a task set waits for its first decision */
  private boolean isUrgent = false;
  /** the least number of slots that stood idle since it was last read */
  private int leastIdle = 0;

  Reader(int capacity) {
    events = new LinkedBlockingQueue<>(capacity);
  }

  synchronized void touch() {
    isDirty = true;
    notifyAll();
  }

  /** A task set waits for its first decision: no pause may delay it. */
  synchronized void urge() {
    isUrgent = true;
    touch();
  }

  /** Wait so long, or until a task set waits for its first decision. */
  synchronized void pause(long pauseMs) throws InterruptedException {
    long endNs = System.nanoTime() + pauseMs * 1000000L;
    long leftMs = pauseMs;
    while (!isUrgent && leftMs > 0) {
      wait(leftMs);
      leftMs = (endNs - System.nanoTime()) / 1000000L;
    }
  }

  /** Wait until something changed, at most so long. */
  synchronized void await(long timeoutMs, Control control) throws InterruptedException {
    long endNs = System.nanoTime() + timeoutMs * 1000000L;
    while (!isDirty && control.isServed()) {
      long leftMs = (endNs - System.nanoTime()) / 1000000L;
      if (leftMs <= 0) {
        break;
      }
      wait(leftMs);
    }
    isDirty = false;
    isUrgent = false;
  }

  void add(Report.Event event) {
    if (!events.offer(event)) {
      dropped.incrementAndGet();
    }
    touch();
  }

  void measure(int stage, TaskInfo task) {
    synchronized (measured) {
      Report.Measured sums = measured.computeIfAbsent(stage, id -> new Report.Measured());
      sums.stage = stage;
      sums.add(task.launchTime(), task.finishTime());
    }
  }

  /** Move what was not read yet into a report. */
  void drainTo(Report report) {
    report.dropped = dropped.get();
    events.drainTo(report.events);
    synchronized (measured) {
      report.measured = new ArrayList<>(measured.values());
      measured.clear();
    }
  }

  /** So many slots stand idle now; a slot that a task has just left is no waste. */
  synchronized void noteIdle(int slots, boolean isFirst) {
    leastIdle = isFirst ? slots : Math.min(leastIdle, slots);
  }

  /** How many have done so all the time since this was last asked. */
  synchronized int takeIdle(int now) {
    int least = leastIdle;
    leastIdle = now;
    return least;
  }
}
