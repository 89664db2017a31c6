package decima.spark;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerEvent;
import org.apache.spark.scheduler.SparkListenerJobEnd;
import org.apache.spark.scheduler.SparkListenerJobStart;
import org.apache.spark.scheduler.SparkListenerStageCompleted;
import org.apache.spark.scheduler.SparkListenerTaskEnd;
import org.apache.spark.scheduler.StageInfo;
import org.apache.spark.scheduler.TaskInfo;
import org.apache.spark.storage.RDDInfo;

/** Events of Spark and changes of task sets, for all who wait for them. */
final class SessionEvents extends SparkListener {
  private final Control control;
  private final CopyOnWriteArrayList readers = new CopyOnWriteArrayList();

  SessionEvents(Control control) {
    this.control = control;
  }

  /** @param capacity events that may wait to be read; beyond it they are dropped and counted. */
  Reader newReader(int capacity) {
    Reader reader = new Reader(capacity);
    readers.add(reader);
    return reader;
  }

  void forget(Reader reader) {
    readers.remove(reader);
  }

  /** Nobody reads any more. */
  void forgetAll() {
    touch();
    readers.clear();
  }

  void touch() {
    for (Iterator all = readers.iterator(); all.hasNext(); ) {
      ((Reader) all.next()).touch();
    }
  }

  void noteIdle(int slots, boolean isFirst) {
    for (Iterator all = readers.iterator(); all.hasNext(); ) {
      ((Reader) all.next()).noteIdle(slots, isFirst);
    }
  }

  private void add(Object[] event) {
    for (Iterator all = readers.iterator(); all.hasNext(); ) {
      ((Reader) all.next()).add(Arrays.asList(event));
    }
    touch();
  }

  // Only what is needed of an event, since a reply of more than 8 KB takes two packets, of which
  // the second waits 40 ms for the first to be acknowledged.

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
    if (task == null || !task.successful()) {
      return;
    }
    for (Iterator all = readers.iterator(); all.hasNext(); ) {
      ((Reader) all.next()).measure(Integer.valueOf(event.stageId()), task);
    }
  }
}
