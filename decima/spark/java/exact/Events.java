package decima.spark;

import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerEvent;
import org.apache.spark.scheduler.SparkListenerJobEnd;
import org.apache.spark.scheduler.SparkListenerJobStart;
import org.apache.spark.scheduler.SparkListenerStageCompleted;
import org.apache.spark.scheduler.SparkListenerTaskEnd;
import org.apache.spark.scheduler.StageInfo;
import org.apache.spark.scheduler.TaskInfo;
import org.apache.spark.storage.RDDInfo;

/** Spark's events: those that the planner has not read yet, and its waits for the next ones. */
final class Events extends SparkListener {
  private final Control control;
  private final LinkedBlockingQueue<Report.Event> unread;
  private final AtomicLong dropped = new AtomicLong();
  /** by stage */
  private final Map<Integer, Report.Measured> measured = new HashMap<>();
  private boolean isDirty = true;
  /** a task set waits for its first decision */
  private boolean isUrgent = false;
  /** the least number of slots that stood idle since it was last read */
  private int leastIdle = 0;
  /** the planner reads no more */
  private volatile boolean isOver = false;

  /** @param capacity events that may wait to be read. */
  Events(Control control, int capacity) {
    this.control = control;
    unread = new LinkedBlockingQueue<>(capacity);
  }

  // --- of Spark ------------------------------------------------------------------------------

  private interface Step {
    void run() throws Exception;
  }

  /** Count what fails: Spark would stop if it were thrown. */
  private void guard(Step step) {
    try {
      step.run();
    } catch (Throwable fault) {
      control.counters.faults.incrementAndGet();
    }
  }

  public void onJobStart(SparkListenerJobStart start) {
    guard(
        () -> {
          Report.Event event = new Report.Event(Report.Event.Kind.JOB_START, start.jobId());
          event.timeMs = start.time();
          event.job = Owners.jobOf(start.properties(), start.jobId());
          event.properties = Owners.reported(start.properties());
          event.stages = new ArrayList<>();
          for (Object stage : Fields.list(start, "stageInfos")) {
            event.stages.add(reported((StageInfo) stage));
          }
          add(event);
          control.noteStart(start.jobId());
        });
  }

  private static Report.StageInfo reported(StageInfo stage) throws Exception {
    Report.StageInfo info = new Report.StageInfo();
    info.stage = stage.stageId();
    info.numTasks = stage.numTasks();
    info.parents = Fields.list(stage, "parentIds");
    info.rdds = new ArrayList<>();
    for (Object rdd : Fields.list(stage, "rddInfos")) {
      info.rdds.add(((RDDInfo) rdd).id());
    }
    Collections.sort(info.rdds);
    return info;
  }

  public void onJobEnd(SparkListenerJobEnd end) {
    guard(
        () -> {
          control.caps.owners.noteEnd(end.jobId());
          Report.Event event = new Report.Event(Report.Event.Kind.JOB_END, end.jobId());
          event.timeMs = end.time();
          add(event);
          if (control.isBounded) {
            control.admission.noteEnd(end.jobId());
          }
        });
  }

  public void onOtherEvent(SparkListenerEvent event) {
    guard(() -> control.caps.owners.note(event));
    if (control.isBounded) {
      guard(() -> control.admission.note(event));
    }
  }

  public void onStageCompleted(SparkListenerStageCompleted end) {
    guard(
        () -> {
          StageInfo stage = end.stageInfo();
          Report.Event event = new Report.Event(Report.Event.Kind.STAGE_END, stage.stageId());
          event.succeeded = !stage.failureReason().isDefined();
          add(event);
        });
  }

  public void onTaskEnd(SparkListenerTaskEnd end) {
    TaskInfo task = end.taskInfo();
    if (isOver || task == null || !task.successful()) {
      return;
    }
    guard(
        () -> {
          synchronized (measured) {
            measured
                .computeIfAbsent(end.stageId(), Report.Measured::new)
                .add(task.launchTime(), task.finishTime());
          }
        });
  }

  private void add(Report.Event event) {
    if (isOver) {
      return;
    }
    if (!unread.offer(event)) {
      dropped.incrementAndGet();
    }
    touch();
  }

  // --- for the planner -----------------------------------------------------------------------

  /** The planner reads no more. */
  void end() {
    isOver = true;
    touch();
  }

  synchronized void touch() {
    isDirty = true;
    notifyAll();
  }

  /** A task set waits for its first decision: no pause may delay it. */
  synchronized void urge() {
    isUrgent = true;
    touch();
  }

  /** Wait so long, or until a task set waits for its first decision. */
  synchronized void pause(long pauseMs) throws InterruptedException {
    long endNs = System.nanoTime() + pauseMs * 1000000L;
    long leftMs = pauseMs;
    while (!isUrgent && leftMs > 0) {
      wait(leftMs);
      leftMs = (endNs - System.nanoTime()) / 1000000L;
    }
  }

  /** Wait until something changed, at most so long. */
  synchronized void await(long timeoutMs) throws InterruptedException {
    long endNs = System.nanoTime() + timeoutMs * 1000000L;
    long leftMs = timeoutMs;
    while (!isDirty && control.isServed() && leftMs > 0) {
      wait(leftMs);
      leftMs = (endNs - System.nanoTime()) / 1000000L;
    }
    isDirty = false;
    isUrgent = false;
  }

  /** Move what was not read yet into a report. */
  void drainTo(Report report) {
    report.dropped = dropped.get();
    unread.drainTo(report.events);
    synchronized (measured) {
      report.measured = new ArrayList<>(measured.values());
      measured.clear();
    }
  }

  /** So many slots stand idle now; a slot that a task has just left is no waste. */
  synchronized void noteIdle(int slots, boolean isFirst) {
    leastIdle = isFirst ? slots : Math.min(leastIdle, slots);
  }

  /** How many have done so all the time since this was last asked. */
  synchronized int takeIdle(int now) {
    int least = leastIdle;
    leastIdle = now;
    return least;
  }
}
