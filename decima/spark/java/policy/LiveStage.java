package decima.policy;

import java.util.Set;
import java.util.TreeSet;

/** What is known of one stage; counts are those of its newest attempt. */
final class LiveStage {
  int numTasks;
  /** of its largest attempt: a later one may only repeat what was lost */
  int allTasks;
  /** rows of the same job */
  Set<Integer> parents = new TreeSet<>();
  /** the id under which it runs or ran last */
  int sparkStage;
  /** how many earlier stages of the job have as many tasks */
  final int place;
  int successful = 0;
  int running = 0;
  /** Spark holds tasks of it */
  boolean isSubmitted = false;
  boolean isDone = false;
  long measured = 0;
  double measuredMs = 0.0;
  /** null while it has not been looked up */
  Priors.Prior prior;
  /** since when its tasks have waited for slots that others held, until the first started; -1 */
  long keptSinceMs = -1;
  /** of the tasks that were measured, since the epoch; -1: none was */
  long firstLaunchMs = -1;
  long lastFinishMs = -1;

  LiveStage(int sparkStage, int numTasks, int place) {
    this.sparkStage = sparkStage;
    this.place = place;
    this.numTasks = numTasks;
    this.allTasks = numTasks;
  }

  int launched() {
    return atMostAll(successful + running);
  }

  int finished() {
    return atMostAll(successful);
  }

  private int atMostAll(int count) {
    return isDone ? numTasks : Math.min(numTasks, count);
  }
}
