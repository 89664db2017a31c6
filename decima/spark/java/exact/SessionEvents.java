package decima.spark;

import java.util.ArrayList;
import java.util.Collections;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerEvent;
import org.apache.spark.scheduler.SparkListenerJobEnd;
import org.apache.spark.scheduler.SparkListenerJobStart;
import org.apache.spark.scheduler.SparkListenerStageCompleted;
import org.apache.spark.scheduler.SparkListenerTaskEnd;
import org.apache.spark.scheduler.StageInfo;
import org.apache.spark.scheduler.TaskInfo;
import org.apache.spark.storage.RDDInfo;

/** Spark's events, for the planner and for the caps of users. */
final class SessionEvents extends SparkListener {
  private final Control control;
  private final Reader reader;
  /** the planner reads no more */
  private volatile boolean isOver = false;

  SessionEvents(Control control, Reader reader) {
    this.control = control;
    this.reader = reader;
  }

  /** The planner reads no more. */
  void end() {
    isOver = true;
    reader.touch();
  }

  private void add(Report.Event event) {
    if (!isOver) {
      reader.add(event);
    }
  }

  public void onJobStart(SparkListenerJobStart start) {
    try {
      Report.Event event = new Report.Event(Report.Event.Kind.JOB_START, start.jobId());
      event.timeMs = start.time();
      event.job = Jobs.jobOf(start.properties(), start.jobId());
      event.properties = Jobs.reported(start.properties());
      event.stages = new ArrayList<>();
      for (Object stage : Fields.list(start, "stageInfos")) {
        event.stages.add(reported((StageInfo) stage));
      }
      add(event);
      control.noteStart(start.jobId());
    } catch (Throwable fault) {
      control.counters.faults.incrementAndGet();
    }
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
    control.caps.users.noteEnd(end.jobId());
    Report.Event event = new Report.Event(Report.Event.Kind.JOB_END, end.jobId());
    event.timeMs = end.time();
    add(event);
  }

  public void onOtherEvent(SparkListenerEvent event) {
    try {
      control.caps.users.note(event);
    } catch (Throwable fault) {
      control.counters.faults.incrementAndGet();
    }
  }

  public void onStageCompleted(SparkListenerStageCompleted end) {
    StageInfo stage = end.stageInfo();
    Report.Event event = new Report.Event(Report.Event.Kind.STAGE_END, stage.stageId());
    event.succeeded = !stage.failureReason().isDefined();
    add(event);
  }

  public void onTaskEnd(SparkListenerTaskEnd end) {
    TaskInfo task = end.taskInfo();
    if (!isOver && task != null && task.successful()) {
      reader.measure(end.stageId(), task);
    }
  }
}
