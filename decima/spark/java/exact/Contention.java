package decima.spark;

import java.util.HashSet;
import java.util.Iterator;

/** Whether tasks wait for each other's slots; counted once for an offer round. */
final class Contention {
  /** more tasks wait than slots stand idle; each start takes one of both */
  final boolean isCrowded;
  /** slots of a job if all had as many */
  final int share;

  Contention(Control control) {
    int waiting = 0;
    HashSet jobs = new HashSet();
    for (Iterator all = control.watched.values().iterator(); all.hasNext(); ) {
      Watched one = (Watched) all.next();
      int own = one.waiting();
      waiting += own;
      if (own > 0 || one.manager.runningTasks() > 0) {
        jobs.add(one.job);
      }
    }
    int slots = control.session.slots;
    isCrowded = waiting > slots - control.root.runningTasks();
    share = Math.max(1, slots / Math.max(1, jobs.size()));
  }
}
