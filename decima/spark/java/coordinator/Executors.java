package decima.spark;

import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.spark.ExecutorAllocationClient;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkContext;
import org.apache.spark.scheduler.ExecutorDecommissionInfo;
import org.apache.spark.scheduler.TaskSchedulerImpl;
import scala.Option;
import scala.collection.immutable.$colon$colon;
import scala.collection.immutable.List$;

/** The executors of an application, through Spark's interface for allocation. */
final class Executors {
  private static final int MANY = 100_000;
  private static final String CORES = "spark.executor.cores";
  private static final ExecutorDecommissionInfo WANTED =
      new ExecutorDecommissionInfo("another application gets it", Option.<String>empty());

  private final Control control;
  private final SparkContext context;
  private final TaskSchedulerImpl scheduler;
  private final ExecutorAllocationClient client;
  private final Method kill;
  /** executors that get no more tasks, and end once they are idle */
  private final Set<String> leaving = new HashSet<>();
  /** of these: Spark moves their blocks elsewhere and ends them, and none comes back */
  private final Set<String> decommissioned = new HashSet<>();
  private final boolean decommissions;
  /** as the application's own settings allow */
  final int most;
  /** tasks that each executor runs at once */
  final int tasks;

  /** @throws SettingsError the executors of this application cannot be requested. */
  Executors(Control control) {
    this.control = control;
    context = control.context;
    scheduler = control.scheduler;
    SparkConf conf = context.getConf();
    if (conf.getBoolean("spark.dynamicAllocation.enabled", false)) {
      throw new SettingsError(
          "spark.decima.coordinator: spark.dynamicAllocation.enabled is true, and both would decide"
              + " on executors; switch one off");
    }
    Object backend = context.schedulerBackend();
    if (!(backend instanceof ExecutorAllocationClient)) {
      throw new SettingsError(
          "spark.decima.coordinator: master " + context.master() + " has no executors to ask for");
    }
    boolean isStandalone = context.master().startsWith("spark://");
    if (isStandalone && !conf.contains(CORES)) {
      throw new SettingsError(
          "spark.decima.coordinator needs " + CORES + ": executors of one size are counted");
    }
    client = (ExecutorAllocationClient) backend;
    kill = killMethod(backend);
    int cores = conf.getInt(CORES, 1);
    tasks = Math.max(1, cores / conf.getInt("spark.task.cpus", 1));
    most =
        isStandalone
            ? Math.max(1, conf.getInt("spark.cores.max", MANY * cores) / cores)
            : conf.getInt("spark.executor.instances", MANY);
    decommissions = conf.getBoolean("spark.decommission.enabled", false);
    boolean isMoved =
        decommissions
            && conf.getBoolean("spark.storage.decommission.enabled", false)
            && conf.getBoolean("spark.storage.decommission.shuffleBlocks.enabled", true);
    if (!isMoved && !conf.getBoolean("spark.shuffle.service.enabled", false)) {
      DecimaPlugin.LOG.warn(
          "neither a shuffle service nor decommissioning is on: an executor that leaves takes its"
              + " shuffle output along, and stages run again");
    }
  }

  // Its sequences have other types in each version of Scala.
  private static Method killMethod(Object backend) {
    for (Method method : backend.getClass().getMethods()) {
      if (method.getName().equals("killExecutors") && method.getParameterCount() == 4) {
        return method;
      }
    }
    throw new SettingsError("spark.decima.coordinator: this Spark cannot end executors");
  }

  /** Executors that have registered, without those that leave. */
  synchronized int registered() throws Exception {
    List<String> every = Fields.list(client, "getExecutorIds");
    every.removeAll(leaving);
    return every.size();
  }

  /** Let the cluster manager start executors up to so many; none ends by this. */
  boolean request(int target) {
    return context.requestTotalExecutors(
        target, 0, scala.collection.immutable.Map$.MODULE$.<String, Object>empty());
  }

  /** Let go of those beyond the target, idle ones first; busy ones once their tasks have ended. */
  synchronized void reduceTo(int target) throws Exception {
    List<String> every = Fields.list(client, "getExecutorIds");
    leaving.retainAll(every);
    decommissioned.retainAll(every);
    List<String> stay = new ArrayList<>(every);
    stay.removeAll(leaving);
    for (String executor : new ArrayList<>(leaving)) {
      if (stay.size() < target && !decommissioned.contains(executor)) {
        leaving.remove(executor); // it is wanted again before it ended
        stay.add(executor);
      }
    }
    Set<String> busy = new HashSet<>(stay); // once each: it changes while they are sorted
    busy.removeIf(executor -> !scheduler.isExecutorBusy(executor));
    stay.sort(Comparator.comparing(executor -> !busy.contains(executor)));
    for (int index = stay.size() - 1; index >= target; index--) {
      leaving.add(stay.get(index));
    }
    control.setLeaving(new HashSet<>(leaving));
    List<String> idle = new ArrayList<>();
    for (String executor : leaving) {
      if (!scheduler.isExecutorBusy(executor) && !decommissioned.contains(executor)) {
        idle.add(executor);
      }
    }
    if (!idle.isEmpty()) {
      end(idle);
    }
  }

  /** End executors, unless a task has begun on them meanwhile. */
  private void end(Collection<String> executors) throws Exception {
    if (decommissions) {
      for (String executor : executors) {
        client.decommissionExecutor(executor, WANTED, false, false);
      }
      decommissioned.addAll(executors);
      return;
    }
    scala.collection.immutable.List<String> list = List$.MODULE$.<String>empty();
    for (String executor : executors) {
      list = new $colon$colon<>(executor, list);
    }
    kill.invoke(client, list, false, false, false);
  }

  /** Back to Spark's own allocation: up to the configured maximum, and none leaves. */
  synchronized void release() {
    leaving.retainAll(decommissioned);
    control.setLeaving(new HashSet<>(leaving));
    request(most);
  }
}
