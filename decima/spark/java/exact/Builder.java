package decima.spark;

import java.util.HashMap;
import java.util.Properties;
import org.apache.spark.scheduler.Pool;
import org.apache.spark.scheduler.Schedulable;
import org.apache.spark.scheduler.SchedulableBuilder;
import org.apache.spark.scheduler.TaskSet;
import org.apache.spark.scheduler.TaskSetManager;
import org.apache.spark.util.Clock;
import scala.Option;

/** Spark's builder, which gets our task set managers instead of its own. */
final class Builder implements SchedulableBuilder {
  private final Control control;

  Builder(Control control) {
    this.control = control;
  }

  public Pool rootPool() {
    return control.sparkBuilder.rootPool();
  }

  public void buildPools() {
    control.sparkBuilder.buildPools();
  }

  /** Called inside submitTasks, which holds the scheduler's lock. */
  public void addTaskSetManager(Schedulable manager, Properties properties) {
    Schedulable ours = manager;
    try {
      ours = limited((TaskSetManager) manager, properties);
    } catch (Throwable fault) {
      control.counters.faults.incrementAndGet();
    }
    control.sparkBuilder.addTaskSetManager(ours, properties);
    control.news.touch();
  }

  private TaskSetManager limited(TaskSetManager original, Properties properties) throws Exception {
    if (original.getClass() != TaskSetManager.class) {
      return original; // a scheduler that makes its own: what it changed must stay
    }
    TaskSet set = original.taskSet();
    Option health = (Option) Fields.get(control.scheduler, "healthTrackerOpt");
    Clock clock = (Clock) Fields.get(control.scheduler, "clock");
    String job = Control.jobOf(properties, set.priority());
    Limited ours = new Limited(control, original, health, clock, job);
    // From here on Spark must find ours wherever it looks for the original.
    scala.collection.mutable.HashMap byStage =
        (scala.collection.mutable.HashMap)
            Fields.get(control.scheduler, "taskSetsByStageIdAndAttempt");
    scala.collection.mutable.HashMap byAttempt =
        (scala.collection.mutable.HashMap) byStage.apply(Integer.valueOf(set.stageId()));
    byAttempt.put(Integer.valueOf(set.stageAttemptId()), ours);
    control.watched.put(ours.watched.key(), ours.watched);
    return ours;
  }
}
