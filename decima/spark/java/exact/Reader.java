package decima.spark;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.spark.scheduler.TaskInfo;

/** What one who waits for events has not read yet; others have readers of their own. */
final class Reader {
  /** lists, as they are sent */
  private final LinkedBlockingQueue events;
  private final AtomicLong dropped = new AtomicLong();
  /** by stage: number, total, first launch and last finish of the tasks that succeeded */
  private final HashMap measured = new HashMap();
  private boolean isDirty = true;
  /** a task set waits for its first decision */
  private boolean isUrgent = false;
  /** the least number of slots that stood idle since it was last read */
  private int leastIdle = 0;

  Reader(int capacity) {
    events = new LinkedBlockingQueue(capacity);
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

  void add(List event) {
    if (!events.offer(event)) {
      dropped.incrementAndGet();
    }
  }

  long dropped() {
    return dropped.get();
  }

  List takeEvents() {
    ArrayList found = new ArrayList();
    events.drainTo(found);
    return found;
  }

  /** Durations are summed up by stage: there may be thousands of tasks between two reports. */
  void measure(Integer stage, TaskInfo task) {
    synchronized (measured) {
      long[] sums = (long[]) measured.get(stage);
      if (sums == null) {
        sums = new long[] {0L, 0L, Long.MAX_VALUE, 0L};
        measured.put(stage, sums);
      }
      sums[0] += 1;
      sums[1] += Math.max(0L, task.finishTime() - task.launchTime());
      sums[2] = Math.min(sums[2], task.launchTime());
      sums[3] = Math.max(sums[3], task.finishTime());
    }
  }

  List takeMeasured() {
    ArrayList found = new ArrayList();
    synchronized (measured) {
      for (Iterator all = measured.entrySet().iterator(); all.hasNext(); ) {
        Map.Entry entry = (Map.Entry) all.next();
        long[] sums = (long[]) entry.getValue();
        found.add(
            Arrays.asList(new Object[] {entry.getKey(), sums[0], sums[1], sums[2], sums[3]}));
      }
      measured.clear();
    }
    return found;
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
