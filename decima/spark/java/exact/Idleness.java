package decima.spark;

import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
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
    HashMap limited = new HashMap();
    HashMap groups = new HashMap();
    List sets = control.session.taskSets();
    for (int index = 0; index < sets.size(); index++) {
      TaskSetManager manager = (TaskSetManager) sets.get(index);
      if (!Watched.isOfDefaultProfile(manager)) {
        continue;
      }
      idle -= manager.runningTasks();
      Watched own = manager instanceof Limited ? ((Limited) manager).watched : null;
      int waiting = Math.max(0, Watched.waiting(manager));
      if (own != null && !own.isUnlimited) {
        waiting = Math.min(waiting, control.caps.room(own)); // users keep the others back, not plans
      }
      if (own == null || own.isUnlimited) {
        usable += waiting;
      } else if (own.in(plan).rank != PlanEntry.UNRANKED || own.isFreeOf(plan)) {
        Integer before = (Integer) limited.get(own.job);
        limited.put(own.job, (before == null ? 0 : before.intValue()) + waiting);
        groups.put(own.job, control.pools.groupOf(own));
      } else if (own.in(plan).isLeftOut) {
        refused += waiting;
      }
    }
    HashMap room = new HashMap();
    for (Iterator jobs = limited.entrySet().iterator(); jobs.hasNext(); ) {
      Map.Entry entry = (Map.Entry) jobs.next();
      String job = (String) entry.getKey();
      int waiting = ((Integer) entry.getValue()).intValue();
      String group = (String) groups.get(job);
      Integer left = (Integer) room.get(group);
      int ofPool = left == null ? control.pools.room(plan, group) : left.intValue();
      int allowed = Math.min(ofPool, Math.max(0, plan.limitOf(job) - control.heldBy(job)));
      room.put(group, Integer.valueOf(ofPool - Math.min(waiting, allowed)));
      usable += Math.min(waiting, allowed);
      refused += Math.max(0, waiting - allowed);
    }
    return Math.max(0, Math.min(idle - usable, refused));
  }
}
