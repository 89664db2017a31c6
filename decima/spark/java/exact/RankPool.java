package decima.spark;

import java.util.ArrayList;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.scheduler.Pool;
import org.apache.spark.scheduler.Schedulable;
import org.apache.spark.scheduler.TaskSetManager;
import scala.collection.mutable.ArrayBuffer;

/**
 * The only child of Spark's root pool while attached: it holds what that held, and sorts the task
 * sets in the order of the plan. The root pool's field is final and stays as it is.
 */
final class RankPool extends Pool {
  /** no user's pool has this name */
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
    for (Schedulable child : new ArrayList<>(root.schedulableQueue())) {
      root.schedulableQueue().remove(child);
      addSchedulable(child);
    }
    // Before the root is the parent, else it would count what runs once more.
    runningTasks_$eq(root.runningTasks());
    root.addSchedulable(this);
  }

  /** Give it back; under the scheduler's lock. */
  void giveBack() {
    root.removeSchedulable(this);
    for (Schedulable child : new ArrayList<>(schedulableQueue())) {
      schedulableQueue().remove(child);
      root.addSchedulable(child);
    }
  }

  public ArrayBuffer getSortedTaskSetQueue() {
    ArrayBuffer sets = super.getSortedTaskSetQueue();
    if (control.isFree()) {
      control.counters.beginRound(0L); // what caps cost is added as offers come
      return sets;
    }
    long began = System.nanoTime();
    try {
      sort(sets);
    } catch (Throwable fault) {
      control.counters.faults.incrementAndGet();
      return super.getSortedTaskSetQueue();
    } finally {
      control.counters.beginRound(System.nanoTime() - began);
    }
    return sets;
  }

  /** The first in Spark's order whose job waits for a place; null: none. Under the scheduler's lock. */
  Limited firstWaiting() {
    ArrayBuffer sets = super.getSortedTaskSetQueue();
    for (int index = 0; index < sets.size(); index++) {
      Limited set = Limited.of((TaskSetManager) sets.apply(index));
      if (set != null && set.isWaiting()) {
        return set;
      }
    }
    return null;
  }

  /** Keep what may start: new ones, then those of the plan in its order, then the others. */
  private void sort(ArrayBuffer sets) {
    Plan plan = control.plan;
    control.forgetContention();
    int ranks = plan.chosen.size();
    TaskSetManager[] startable = new TaskSetManager[sets.size()];
    int[] place = new int[sets.size()];
    int[] ends = new int[ranks + 3];
    int count = 0;
    for (int index = 0; index < sets.size(); index++) {
      TaskSetManager manager = (TaskSetManager) sets.apply(index);
      Limited set = Limited.of(manager);
      if (set == null || control.mayStart(set)) {
        startable[count] = manager;
        place[count] = placeOf(manager, set, plan, ranks);
        ends[place[count++] + 1]++;
      }
    }
    // A counting sort, which keeps Spark's order within a place.
    for (int index = 1; index < ends.length; index++) {
      ends[index] += ends[index - 1];
    }
    for (int index = 0; index < count; index++) {
      sets.update(ends[place[index]]++, startable[index]);
    }
    sets.remove(count, sets.size() - count);
  }

  private int placeOf(TaskSetManager manager, Limited set, Plan plan, int ranks) {
    int rank = set == null ? plan.rankOf(manager.taskSet().stageId()) : set.in(plan).rank;
    if (rank != Plan.UNRANKED) {
      return rank + 1;
    }
    // A new one within its share comes first, as it would under FAIR, until a plan knows it.
    return set != null && control.isNew(set, plan) ? 0 : ranks + 1;
  }

  // Log readers look for Spark's names.
  public String logName() {
    return Pool.class.getName();
  }

  // The root pool is looked up by name as before.
  public ConcurrentHashMap schedulableNameToSchedulable() {
    return root == null
        ? super.schedulableNameToSchedulable()
        : root.schedulableNameToSchedulable();
  }
}
