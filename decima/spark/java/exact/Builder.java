package decima.spark;

import java.util.Properties;
import org.apache.spark.SparkContext;
import org.apache.spark.scheduler.FIFOSchedulableBuilder;
import org.apache.spark.scheduler.FairSchedulableBuilder;
import org.apache.spark.scheduler.Pool;
import org.apache.spark.scheduler.Schedulable;
import org.apache.spark.scheduler.SchedulableBuilder;
import org.apache.spark.scheduler.TaskSchedulerImpl;
import org.apache.spark.scheduler.TaskSet;
import org.apache.spark.scheduler.TaskSetManager;
import org.apache.spark.util.Clock;
import scala.Option;

/** Stands in for Spark's builder: it builds on `RankPool`, with `Limited` task set managers. */
final class Builder implements SchedulableBuilder {
  private final Control control;
  private final SchedulableBuilder onPool;

  Builder(Control control, SchedulableBuilder original, Pool pool) {
    this.control = control;
    this.onPool = likeOn(original, pool, control.context);
  }

  /** Another builder of the same kind: Spark's builders keep the pool that they were made for. */
  private static SchedulableBuilder likeOn(
      SchedulableBuilder original, Pool pool, SparkContext context) {
    if (original instanceof FairSchedulableBuilder) {
      return new FairSchedulableBuilder(pool, context);
    }
    if (original instanceof FIFOSchedulableBuilder) {
      return new FIFOSchedulableBuilder(pool);
    }
    throw new IllegalStateException(original.getClass().getName() + " is no builder of Spark's");
  }

  /** Whether it is of this class, from this class loader or another. */
  static boolean isOurs(Object builder) {
    return builder.getClass().getName().equals(Builder.class.getName());
  }

  public Pool rootPool() {
    return onPool.rootPool();
  }

  public void buildPools() {
    // Spark's own builder has built them when the scheduler was made.
  }

  /** Called inside submitTasks, which holds the scheduler's lock. */
  public void addTaskSetManager(Schedulable manager, Properties properties) {
    Schedulable ours = manager;
    Throwable reason = null;
    try {
      ours = limited((TaskSetManager) manager, properties);
    } catch (Throwable fault) {
      reason = fault;
      control.counters.faults.incrementAndGet();
    }
    onPool.addTaskSetManager(ours, properties);
    if (reason != null && control.hasCaps) {
      // Without `Limited` no cap holds: rather than run beyond it, the job fails.
      ((TaskSetManager) manager)
          .abort("decima cannot hold caps for this stage: " + reason, Option.apply(reason));
    }
    control.events.touch();
  }

  /**
   * Whether Spark's own scheduler made it. That of 4.3 makes a subclass for streaming queries, which
   * adds the query's id to log lines and nothing else.
   */
  private static boolean isSparks(TaskSetManager manager) {
    return manager.getClass() == TaskSetManager.class
        || manager.getClass().getName().startsWith(TaskSchedulerImpl.class.getName() + "$");
  }

  private TaskSetManager limited(TaskSetManager original, Properties properties) throws Exception {
    if (!isSparks(original)) {
      if (control.hasCaps) {
        throw new IllegalStateException(original.getClass().getName() + " takes no caps");
      }
      return original; // a scheduler that makes its own: what it changed must stay
    }
    TaskSet set = original.taskSet();
    Option health = (Option) Fields.get(control.scheduler, "healthTrackerOpt");
    Clock clock = (Clock) Fields.get(control.scheduler, "clock");
    String job = Owners.jobOf(properties, set.priority());
    Limited ours = new Limited(control, original, health, clock, job);
    // From here on Spark must find the new one wherever it looks for the original.
    scala.collection.mutable.HashMap byStage =
        (scala.collection.mutable.HashMap)
            Fields.get(control.scheduler, "taskSetsByStageIdAndAttempt");
    scala.collection.mutable.HashMap byAttempt =
        (scala.collection.mutable.HashMap) byStage.apply(set.stageId());
    byAttempt.put(set.stageAttemptId(), ours);
    control.watched.put(ours.key(), ours);
    return ours;
  }
}
