package decima.spark;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerEvent;
import org.apache.spark.scheduler.SparkListenerJobEnd;
import org.apache.spark.scheduler.SparkListenerJobStart;
import org.apache.spark.scheduler.SparkListenerStageCompleted;
import org.apache.spark.scheduler.SparkListenerTaskEnd;
import org.apache.spark.scheduler.StageInfo;
import org.apache.spark.scheduler.TaskInfo;
import org.apache.spark.storage.RDDInfo;

/** Events of Spark and changes of task sets, for the one who waits for them. */
final class SessionEvents extends SparkListener {
  private final Control control;
  private final Reader reader;
  /** nobody reads any more */
  private volatile boolean isOver = false;

  SessionEvents(Control control, Reader reader) {
    this.control = control;
    this.reader = reader;
  }

  /** Nobody reads any more. */
  void end() {
    isOver = true;
    reader.touch();
  }

  private void add(Object[] event) {
    if (!isOver) {
      reader.add(Arrays.asList(event));
      reader.touch();
    }
  }

  public void onJobStart(SparkListenerJobStart event) {
    try {
      ArrayList stages = new ArrayList();
      for (Iterator all = Fields.list(event, "stageInfos").iterator(); all.hasNext(); ) {
        stages.add(reported((StageInfo) all.next()));
      }
      LinkedHashMap properties = Jobs.reported(event.properties());
      String job = Jobs.jobOf(event.properties(), event.jobId());
      add(new Object[] {"J", event.jobId(), event.time(), stages, properties, job});
      control.noteStart(event.jobId());
    } catch (Throwable fault) {
      control.counters.faults.incrementAndGet();
    }
  }

  private static List reported(StageInfo stage) throws Exception {
    ArrayList rdds = new ArrayList();
    for (Iterator all = Fields.list(stage, "rddInfos").iterator(); all.hasNext(); ) {
      rdds.add(((RDDInfo) all.next()).id());
    }
    return Arrays.asList(
        new Object[] {
          stage.stageId(), stage.numTasks(), Fields.list(stage, "parentIds"), rdds
        });
  }

  public void onJobEnd(SparkListenerJobEnd event) {
    control.caps.users.noteEnd(event.jobId());
    add(new Object[] {"E", event.jobId(), event.time()});
  }

  public void onOtherEvent(SparkListenerEvent event) {
    try {
      control.caps.users.note(event);
    } catch (Throwable fault) {
      control.counters.faults.incrementAndGet();
    }
  }

  public void onStageCompleted(SparkListenerStageCompleted event) {
    StageInfo stage = event.stageInfo();
    boolean succeeded = !stage.failureReason().isDefined();
    add(new Object[] {"S", stage.stageId(), stage.attemptNumber(), succeeded});
  }

  public void onTaskEnd(SparkListenerTaskEnd event) {
    TaskInfo task = event.taskInfo();
    if (isOver || task == null || !task.successful()) {
      return;
    }
    reader.measure(Integer.valueOf(event.stageId()), task);
  }
}
