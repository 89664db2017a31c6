package decima.spark;

import java.util.ArrayList;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.apache.spark.scheduler.Pool;
import org.apache.spark.scheduler.Schedulable;
import org.apache.spark.scheduler.TaskSetManager;
import scala.collection.mutable.ArrayBuffer;

/** Spark's root pool, with the task sets in the order of the plan. */
final class RankPool extends Pool {
  private final Control control;

  RankPool(Control control) {
    super(
        control.sparkPool.poolName(),
        control.sparkPool.schedulingMode(),
        control.sparkPool.minShare(),
        control.sparkPool.weight());
    this.control = control;
  }

  public ArrayBuffer getSortedTaskSetQueue() {
    ArrayBuffer sets = control.sparkPool.getSortedTaskSetQueue();
    if (control.isFree()) {
      return sets;
    }
    long began = System.nanoTime();
    try {
      sort(sets);
    } catch (Throwable fault) {
      control.counters.faults.incrementAndGet();
      return control.sparkPool.getSortedTaskSetQueue();
    } finally {
      control.counters.rounds.incrementAndGet();
      control.counters.roundNs.addAndGet(System.nanoTime() - began);
    }
    return sets;
  }

  private void sort(ArrayBuffer sets) {
    final Plan plan = control.plan;
    ArrayList found = new ArrayList();
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
    java.util.Collections.sort(found);
    for (int index = 0; index < found.size(); index++) {
      sets.update(index, ((Ranked) found.get(index)).manager);
    }
    sets.remove(found.size(), sets.size() - found.size());
  }

  // Who reads logs looks for Spark's names.
  public String logName() {
    return Pool.class.getName();
  }

  // Everything else is Spark's own pool.
  public ConcurrentLinkedQueue schedulableQueue() {
    return control == null ? super.schedulableQueue() : control.sparkPool.schedulableQueue();
  }

  public ConcurrentHashMap schedulableNameToSchedulable() {
    return control == null
        ? super.schedulableNameToSchedulable()
        : control.sparkPool.schedulableNameToSchedulable();
  }

  public int runningTasks() {
    return control == null ? 0 : control.sparkPool.runningTasks();
  }

  public void addSchedulable(Schedulable one) {
    control.sparkPool.addSchedulable(one);
  }

  public void removeSchedulable(Schedulable one) {
    control.sparkPool.removeSchedulable(one);
  }
}

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
