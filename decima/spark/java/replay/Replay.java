// Stages of tasks that only sleep, with the graph of a recorded job: a real Spark schedules them.
// Compiled in the driver by Janino, as the constructors of RDD differ between versions of Scala.
package decima.spark;

import java.util.ArrayList;
import java.util.HashMap;
import org.apache.spark.HashPartitioner;
import org.apache.spark.Partition;
import org.apache.spark.SparkContext;
import org.apache.spark.TaskContext;
import org.apache.spark.TaskKilledException;
import org.apache.spark.rdd.RDD;
import org.apache.spark.rdd.ShuffledRDD;
import scala.collection.Iterator;
import scala.collection.immutable.List;
import scala.collection.immutable.Nil$;
import scala.reflect.ClassTag$;
import scala.reflect.ClassTag;

/** A stage: one partition for each task, which sleeps for its time and yields nothing. */
public final class Replay extends RDD {
  private static final long serialVersionUID = 1L;
  private static final long SLICE_MS = 100L;
  private final long[] taskMs;

  Replay(SparkContext context, scala.collection.immutable.Seq parents, long[] taskMs) {
    super(context, parents, tag());
    this.taskMs = taskMs;
  }

  static ClassTag tag() {
    return ClassTag$.MODULE$.apply(Object.class);
  }

  public Partition[] getPartitions() {
    Partition[] all = new Partition[taskMs.length];
    for (int index = 0; index < all.length; index++) {
      all[index] = new Nap(index);
    }
    return all;
  }

  public Iterator compute(Partition split, TaskContext task) {
    long endNs = System.nanoTime() + taskMs[split.index()] * 1000000L;
    try {
      // In slices, so that a killed task ends soon.
      for (long leftNs = endNs - System.nanoTime(); leftNs > 0; leftNs = endNs - System.nanoTime()) {
        if (task.isInterrupted()) {
          throw new TaskKilledException("replay was cancelled");
        }
        Thread.sleep(Math.min(SLICE_MS, leftNs / 1000000L + 1));
      }
    } catch (InterruptedException stop) {
      throw new TaskKilledException("replay was cancelled");
    }
    return scala.collection.Iterator$.MODULE$.empty();
  }

  /**
   * The last stage of a graph: "parent,parent:ms,ms,...;..." stage by stage, parents first. Counting
   * it runs every stage once.
   */
  public static RDD build(SparkContext context, String job, String graph) {
    String[] stages = graph.split(";");
    ArrayList built = new ArrayList();
    HashMap outputs = new HashMap();
    for (int row = 0; row < stages.length; row++) {
      String[] parts = stages[row].split(":", -1);
      String[] times = parts[1].split(",");
      long[] taskMs = new long[times.length];
      for (int index = 0; index < times.length; index++) {
        taskMs[index] = Long.parseLong(times[index]);
      }
      List parents = (List) (Object) Nil$.MODULE$;
      String[] names = parts[0].length() > 0 ? parts[0].split(",") : new String[0];
      for (int index = names.length - 1; index >= 0; index--) {
        Integer parent = Integer.valueOf(names[index]);
        if (!outputs.containsKey(parent)) {
          // Children share one shuffle, so that the parent runs once.
          ShuffledRDD output =
              new ShuffledRDD(
                  (RDD) built.get(parent.intValue()), new HashPartitioner(1), tag(), tag(), tag());
          outputs.put(parent, output.getDependencies().head());
        }
        parents = parents.$colon$colon(outputs.get(parent));
      }
      Replay stage = new Replay(context, parents, taskMs);
      stage.setName(job + ":" + row);
      built.add(stage);
    }
    return (RDD) built.get(built.size() - 1);
  }
}

final class Nap implements Partition {
  private static final long serialVersionUID = 1L;
  private final int number;

  Nap(int number) {
    this.number = number;
  }

  public int index() {
    return number;
  }

  // What Scala 2.13 adds to a trait that names `super`.
  public boolean org$apache$spark$Partition$$super$equals(Object other) {
    return this == other;
  }

  public int hashCode() {
    return number;
  }

  public boolean equals(Object other) {
    return other instanceof Nap && ((Nap) other).number == number;
  }
}
