package decima.spark;

import java.util.ArrayList;
import java.util.Collections;
import java.util.Iterator;
import java.util.List;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.scheduler.Pool;
import org.apache.spark.scheduler.Schedulable;
import org.apache.spark.scheduler.TaskSetManager;
import scala.collection.mutable.ArrayBuffer;

/**
 * The only child of Spark's root pool while we are attached: it holds what that held, and sorts the
 * task sets in the order of the plan. The root pool's field is final and stays as it is.
 */
final class RankPool extends Pool {
  /** no pool of a user's is called so */
  static final String NAME = "decima order";

  private final Control control;
  private final Pool root;

  RankPool(Control control, Pool root) {
    super(NAME, root.schedulingMode(), root.minShare(), root.weight());
    this.control = control;
    this.root = root;
  }

  /** Take what the root pool holds; under the scheduler's lock. */
  void takeOver() {
    List all = new ArrayList(root.schedulableQueue());
    for (Iterator each = all.iterator(); each.hasNext(); ) {
      Schedulable one = (Schedulable) each.next();
      root.schedulableQueue().remove(one);
      addSchedulable(one);
    }
    // Before the root is our parent, else it would count what runs once more.
    runningTasks_$eq(root.runningTasks());
    root.addSchedulable(this);
  }

  /** Give it back; likewise. */
  void giveBack() {
    root.removeSchedulable(this);
    List all = new ArrayList(schedulableQueue());
    for (Iterator each = all.iterator(); each.hasNext(); ) {
      Schedulable one = (Schedulable) each.next();
      schedulableQueue().remove(one);
      root.addSchedulable(one);
    }
  }

  public ArrayBuffer getSortedTaskSetQueue() {
    ArrayBuffer sets = super.getSortedTaskSetQueue();
    if (control.isFree()) {
      return sets;
    }
    long began = System.nanoTime();
    try {
      sort(sets);
    } catch (Throwable fault) {
      control.counters.faults.incrementAndGet();
      return super.getSortedTaskSetQueue();
    } finally {
      control.counters.noteRound(System.nanoTime() - began);
    }
    return sets;
  }

  private void sort(ArrayBuffer sets) {
    final Plan plan = control.plan;
    control.forgetCrowd();
    ArrayList found = new ArrayList(sets.size());
    for (int index = 0; index < sets.size(); index++) {
      TaskSetManager manager = (TaskSetManager) sets.apply(index);
      Watched own = manager instanceof Limited ? ((Limited) manager).watched : null;
      Integer rank = (Integer) plan.rank.get(Integer.valueOf(manager.taskSet().stageId()));
      if (own == null || control.mayStart(own)) {
        // A new one within its share comes first, as it would under FAIR, until a plan knows it.
        int place = own != null && control.isNew(own, plan) ? -1 : Integer.MAX_VALUE;
        found.add(new Ranked(manager, rank == null ? place : rank.intValue(), index));
      }
    }
    Collections.sort(found);
    for (int index = 0; index < found.size(); index++) {
      sets.update(index, ((Ranked) found.get(index)).manager);
    }
    sets.remove(found.size(), sets.size() - found.size());
  }

  // Who reads logs looks for Spark's names.
  public String logName() {
    return Pool.class.getName();
  }

  // Who asks the root pool for a pool by its name finds it as before.
  public ConcurrentHashMap schedulableNameToSchedulable() {
    return root == null
        ? super.schedulableNameToSchedulable()
        : root.schedulableNameToSchedulable();
  }
}

/** A task set and its place: by rank in the plan, then as Spark has it. */
final class Ranked implements Comparable {
  final TaskSetManager manager;
  private final int rank;
  private final int place;

  Ranked(TaskSetManager manager, int rank, int place) {
    this.manager = manager;
    this.rank = rank;
    this.place = place;
  }

  public int compareTo(Object other) {
    Ranked that = (Ranked) other;
    return rank != that.rank
        ? (rank < that.rank ? -1 : 1)
        : (place < that.place ? -1 : place > that.place ? 1 : 0);
  }
}
