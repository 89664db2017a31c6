package decima.spark;

import org.apache.spark.scheduler.DirectTaskResult;
import org.apache.spark.scheduler.TaskSetManager;
import org.apache.spark.util.Clock;
import scala.Enumeration;
import scala.Option;

/** A task set that starts no task beyond the limit of its job. */
final class Limited extends TaskSetManager {
  private final Control control;
  final Watched watched;

  Limited(Control control, TaskSetManager original, Option health, Clock clock, String job) {
    super(
        control.scheduler, original.taskSet(), original.maxTaskFailures(), health, clock);
    this.control = control;
    this.watched = new Watched(this, job, control.counterOf(job));
    control.caps.take(watched);
  }

  // Log readers look for Spark's names.
  public String logName() {
    return TaskSetManager.class.getName();
  }

  // Overridden here and not in resourceOffer, whose signature differs between versions of Spark.
  public Option dequeueTaskHelper(
      String executor, String host, Enumeration.Value locality, boolean speculative) {
    if (watched != null && isRefused(executor)) {
      return Option.empty();
    }
    return super.dequeueTaskHelper(executor, host, locality, speculative);
  }

  private boolean isRefused(String executor) {
    long began = System.nanoTime();
    try {
      if (control.isLeaving(executor)) {
        return true;
      }
      if (control.mayStart(watched)) {
        return false;
      }
      control.counters.refused.incrementAndGet();
      return true;
    } catch (Throwable fault) {
      control.counters.faults.incrementAndGet();
      return isCapped(); // the plan is lost, and caps hold
    } finally {
      control.counters.addToRound(System.nanoTime() - began);
    }
  }

  /** Whether caps leave no slot, or cannot be read: nothing is thrown into Spark's round. */
  private boolean isCapped() {
    try {
      return control.areCapsMiscounted || control.caps.room(watched) == 0;
    } catch (Throwable fault) {
      return control.hasCaps;
    }
  }

  public void addRunningTask(long task) {
    int before = runningTasks();
    super.addRunningTask(task);
    try {
      control.changeHeld(watched, runningTasks() - before);
      if (!watched.ranDry && watched.waiting() <= 0) {
        watched.ranDry = true;
        control.reader.touch();
      }
    } catch (Throwable fault) {
      control.areCapsMiscounted = control.hasCaps;
      control.counters.faults.incrementAndGet();
    }
  }

  public void removeRunningTask(long task) {
    int before = runningTasks();
    super.removeRunningTask(task);
    try {
      control.changeHeld(watched, runningTasks() - before);
      if (watched.waiting() > 1) {
        watched.ranDry = false; // more than the task that has ended: others are to start again
      }
    } catch (Throwable fault) {
      control.areCapsMiscounted = control.hasCaps;
      control.counters.faults.incrementAndGet();
    }
  }

  // Between the end of a task and this its slot is free, and it counts as waiting.
  public void handleSuccessfulTask(long task, DirectTaskResult result) {
    super.handleSuccessfulTask(task, result);
    if (watched.waiting() <= 0) {
      // The plan has no use for the slot: it was not on offer when the plan was made.
      control.reader.touch();
    }
  }
}
