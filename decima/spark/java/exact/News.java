package decima.spark;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.spark.scheduler.Pool;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerJobEnd;
import org.apache.spark.scheduler.SparkListenerJobStart;
import org.apache.spark.scheduler.SparkListenerStageCompleted;
import org.apache.spark.scheduler.SparkListenerTaskEnd;
import org.apache.spark.scheduler.StageInfo;
import org.apache.spark.scheduler.TaskInfo;
import org.apache.spark.scheduler.TaskSet;
import org.apache.spark.scheduler.TaskSetManager;
import org.apache.spark.storage.RDDInfo;

/** Events of Spark and changes of task sets, for `Control.await`. */
final class News extends SparkListener {
  private final Control control;
  private final LinkedBlockingQueue events;
  private final AtomicLong dropped = new AtomicLong();
  /** by stage: successful tasks, their milliseconds, first launch, last finish, in this report */
  private final HashMap measured = new HashMap();
  private boolean isDirty = true;
  /** tasks that can run at once */
  volatile int slots = 0;
  private int knownSlots = 0;

  News(Control control, int capacity) {
    this.control = control;
    this.events = new LinkedBlockingQueue(capacity);
  }

  synchronized void touch() {
    isDirty = true;
    notifyAll();
  }

  synchronized void await(long timeoutMs) throws InterruptedException {
    long endNs = System.nanoTime() + timeoutMs * 1000000L;
    while (!isDirty && control.attached) {
      long leftMs = (endNs - System.nanoTime()) / 1000000L;
      if (leftMs <= 0) {
        break;
      }
      wait(leftMs);
    }
    isDirty = false;
  }

  private void add(Object[] event) {
    if (!events.offer(Arrays.asList(event))) {
      dropped.incrementAndGet();
    }
  }

  private void fault() {
    control.counters.faults.incrementAndGet();
  }

  // Only what is needed of an event, since a reply of more than 8 KB takes two packets, of which
  // the second waits 40 ms for the first to be acknowledged.

  public void onJobStart(SparkListenerJobStart event) {
    try {
      ArrayList stages = new ArrayList();
      for (int index = 0; index < event.stageInfos().size(); index++) {
        stages.add(told((StageInfo) event.stageInfos().apply(index)));
      }
      LinkedHashMap properties = new LinkedHashMap();
      for (int index = 0; index < Control.TOLD_PROPERTIES.length; index++) {
        String key = Control.TOLD_PROPERTIES[index];
        String value = event.properties() == null ? null : event.properties().getProperty(key);
        if (value != null) {
          properties.put(key, value);
        }
      }
      add(new Object[] {"J", event.jobId(), event.time(), stages, properties});
    } catch (Throwable fault) {
      fault();
    }
    touch();
  }

  private static List told(StageInfo stage) {
    ArrayList parents = new ArrayList();
    for (int index = 0; index < stage.parentIds().size(); index++) {
      parents.add(stage.parentIds().apply(index));
    }
    ArrayList rdds = new ArrayList();
    for (int index = 0; index < stage.rddInfos().size(); index++) {
      rdds.add(((RDDInfo) stage.rddInfos().apply(index)).id());
    }
    return Arrays.asList(new Object[] {stage.stageId(), stage.numTasks(), parents, rdds});
  }

  public void onJobEnd(SparkListenerJobEnd event) {
    add(new Object[] {"E", event.jobId(), event.time()});
    touch();
  }

  public void onStageCompleted(SparkListenerStageCompleted event) {
    StageInfo stage = event.stageInfo();
    boolean succeeded = !stage.failureReason().isDefined();
    add(new Object[] {"S", stage.stageId(), stage.attemptNumber(), succeeded});
    touch();
  }

  /** Durations are summed up by stage: there may be thousands of tasks between two reports. */
  public void onTaskEnd(SparkListenerTaskEnd event) {
    TaskInfo task = event.taskInfo();
    if (task == null || !task.successful()) {
      return;
    }
    Integer stage = Integer.valueOf(event.stageId());
    synchronized (measured) {
      long[] sums = (long[]) measured.get(stage);
      if (sums == null) {
        sums = new long[] {0L, 0L, Long.MAX_VALUE, 0L};
        measured.put(stage, sums);
      }
      sums[0] += 1;
      sums[1] += Math.max(0L, task.finishTime() - task.launchTime());
      sums[2] = Math.min(sums[2], task.launchTime());
      sums[3] = Math.max(sums[3], task.finishTime());
    }
  }

  private List takeMeasured() {
    ArrayList found = new ArrayList();
    synchronized (measured) {
      for (Iterator all = measured.entrySet().iterator(); all.hasNext(); ) {
        Map.Entry entry = (Map.Entry) all.next();
        long[] sums = (long[]) entry.getValue();
        found.add(
            Arrays.asList(new Object[] {entry.getKey(), sums[0], sums[1], sums[2], sums[3]}));
      }
      measured.clear();
    }
    return found;
  }

  /** One consistent picture of all task sets, and the events since the last one. */
  Map state() {
    LinkedHashMap out = new LinkedHashMap();
    out.put("time_ms", System.currentTimeMillis());
    out.put("plan", control.plan.number);
    out.put("lapsed", control.lapsed);
    out.put("attached", control.attached);
    out.put("dropped", dropped.get());
    ArrayList told = new ArrayList();
    synchronized (control.scheduler) {
      countSlots();
      List sets = taskSets();
      forgetOthers(sets);
      for (int index = 0; index < sets.size(); index++) {
        TaskSetManager manager = (TaskSetManager) sets.get(index);
        if (Watched.isOfDefaultProfile(manager)) {
          told.add(told(manager));
        }
      }
    }
    out.put("sets", told);
    out.put("slots", slots);
    out.put("idle_ms", control.idleness.ms());
    out.put("idle_slots", control.idleness.take());
    ArrayList news = new ArrayList();
    events.drainTo(news);
    out.put("events", news);
    out.put("measured", takeMeasured());
    return out;
  }

  void countSlots() {
    slots =
        control.context.maxNumConcurrentTasks(
            control.context.resourceProfileManager().defaultResourceProfile());
  }

  /** Those of Spark's pools, in no order; read without a lock. */
  List taskSets() {
    ArrayList found = new ArrayList();
    collect(control.sparkPool, found);
    return found;
  }

  /** All task sets; the sorted queue of a pool leaves out those with no task to start. */
  private static void collect(Pool pool, ArrayList found) {
    for (Iterator all = pool.schedulableQueue().iterator(); all.hasNext(); ) {
      Object one = all.next();
      if (one instanceof Pool) {
        collect((Pool) one, found);
      } else if (one instanceof TaskSetManager) {
        found.add(one);
      }
    }
  }

  /** Keep nothing of task sets that Spark has let go of; tell the others of new executors. */
  private void forgetOthers(List sets) {
    HashSet keys = new HashSet();
    HashSet jobs = new HashSet();
    for (int index = 0; index < sets.size(); index++) {
      if (sets.get(index) instanceof Limited) {
        Limited own = (Limited) sets.get(index);
        keys.add(own.watched.key());
        jobs.add(own.watched.job);
        if (slots > knownSlots) {
          own.executorAdded(); // an offer round tells only those that `RankPool` lets through
        }
      }
    }
    knownSlots = slots;
    control.watched.keySet().retainAll(keys);
    control.held.keySet().retainAll(jobs);
  }

  private static List told(TaskSetManager manager) {
    TaskSet set = manager.taskSet();
    String job =
        manager instanceof Limited
            ? ((Limited) manager).watched.job
            : Control.jobOf(set.properties(), set.priority());
    return Arrays.asList(
        new Object[] {
          set.stageId(),
          set.stageAttemptId(),
          job,
          manager.numTasks(),
          manager.tasksSuccessful(),
          manager.runningTasks(),
          manager.isZombie()
        });
  }
}
