package decima.spark;

import java.util.HashMap;
import java.util.Map;
import org.apache.spark.scheduler.TaskSetManager;

/**
 * Slots that stand idle beside tasks that the plan, and nothing else, keeps from starting: its
 * limits, or that it did not choose their stage. Tasks that may start and do not are Spark's affair
 * (locality, excluded executors, barriers), and a new stage's wait for its first decision is short.
 */
final class Idleness {
  private final Control control;
  private long sinceNs = 0;
  /** slots that stand idle so; 0: none does */
  private int wasted = 0;
  /** slots that no task runs on, whatever the reason */
  private int idle = 0;

  Idleness(Control control) {
    this.control = control;
  }

  /** For how long slots have stood idle, as often as it was looked at. */
  synchronized long ms() {
    return wasted == 0 ? 0L : (System.nanoTime() - sinceNs) / 1000000L;
  }

  synchronized int wasted() {
    return wasted;
  }

  synchronized int idle() {
    return idle;
  }

  synchronized void look() {
    int counted = count();
    int now = control.isFree() || control.observeOnly ? 0 : counted;
    control.reader.noteIdle(now, wasted == 0);
    if (wasted == 0) {
      sinceNs = System.nanoTime();
    }
    wasted = now;
  }

  private int count() {
    if (control.watched.isEmpty()) {
      idle = 0;
      return 0;
    }
    Plan plan = control.plan;
    idle = control.session.slots;
    int usable = 0;
    int refused = 0;
    Map<String, Integer> waitingOf = new HashMap<>();
    Map<String, String> groupOf = new HashMap<>();
    for (TaskSetManager manager : control.session.taskSets()) {
      if (!Watched.isOfDefaultProfile(manager)) {
        continue;
      }
      idle -= manager.runningTasks();
      Watched set = Watched.of(manager);
      int waiting = Math.max(0, Watched.waiting(manager));
      if (set == null || set.isUnlimited) {
        usable += waiting;
        continue;
      }
      waiting = Math.min(waiting, control.caps.room(set)); // caps keep the others back, not plans
      if (set.in(plan).rank != Plan.UNRANKED || set.isFreeOf(plan)) {
        waitingOf.merge(set.job, waiting, Integer::sum);
        groupOf.put(set.job, control.pools.groupOf(set));
      } else if (set.in(plan).isLeftOut) {
        refused += waiting;
      }
    }
    Map<String, Integer> room = new HashMap<>();
    for (Map.Entry<String, Integer> entry : waitingOf.entrySet()) {
      String group = groupOf.get(entry.getKey());
      int ofJob = plan.limitOf(entry.getKey()) - control.heldBy(entry.getKey());
      int ofGroup = room.computeIfAbsent(group, name -> control.pools.room(plan, name));
      int started = Math.min(entry.getValue(), Math.min(ofGroup, Math.max(0, ofJob)));
      room.put(group, ofGroup - started);
      usable += started;
      refused += entry.getValue() - started;
    }
    return Math.max(0, Math.min(idle - usable, refused));
  }
}
