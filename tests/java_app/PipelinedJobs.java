import java.util.Collections;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.spark.Dependency;
import org.apache.spark.HashPartitioner;
import org.apache.spark.Partition;
import org.apache.spark.PipelinedShuffleDependency;
import org.apache.spark.SparkConf;
import org.apache.spark.TaskContext;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.rdd.RDD;
import org.apache.spark.rdd.ShuffledRDD;
import org.apache.spark.serializer.JavaSerializer;
import org.apache.spark.shuffle.ShuffleWriteProcessor;
import org.apache.spark.shuffle.checksum.RowBasedChecksum;
import scala.Option;
import scala.Tuple2;
import scala.collection.Iterator;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.reflect.ClassTag;
import scala.reflect.ClassTag$;

/**
 * Two stages of Spark 4.3 that run at the same time, beside an ordinary job: how many of their tasks
 * did run at once.
 *
 * <p>Arguments: tasks of the first stage, of the second, and of the ordinary job.
 */
public final class PipelinedJobs {
  private static final long NAP_MS = 2_000;
  private static final AtomicInteger RUNNING = new AtomicInteger();
  private static final AtomicInteger MOST = new AtomicInteger();

  /** Reads what the first stage writes, while that writes it. */
  private static final class Second extends ShuffledRDD<Integer, Integer, Integer> {
    Second(RDD<Tuple2<Integer, Integer>> first, int tasks) {
      super(first, new HashPartitioner(tasks), tag(), tag(), tag());
    }

    @Override
    public Seq<Dependency<?>> getDependencies() {
      Dependency<?> between =
          new PipelinedShuffleDependency<Integer, Integer, Integer>(
              prev(), partitioner().get(), new JavaSerializer(context().getConf()), Option.empty(),
              Option.empty(), false, new ShuffleWriteProcessor(), new RowBasedChecksum[0], tag(),
              tag(), tag());
      return CollectionConverters.<Dependency<?>>asScala(
              Collections.<Dependency<?>>singletonList(between))
          .toSeq();
    }

    @Override
    public Iterator<Tuple2<Integer, Integer>> compute(Partition part, TaskContext context) {
      nap();
      return super.compute(part, context);
    }
  }

  private static int nap() {
    MOST.accumulateAndGet(RUNNING.incrementAndGet(), Math::max);
    try {
      Thread.sleep(NAP_MS);
    } catch (InterruptedException cancelled) {
      Thread.currentThread().interrupt();
    }
    return RUNNING.decrementAndGet();
  }

  private static <T> ClassTag<T> tag() {
    return ClassTag$.MODULE$.apply(Object.class);
  }

  public static void main(String[] arguments) throws Exception {
    int first = Integer.parseInt(arguments[0]);
    int second = Integer.parseInt(arguments[1]);
    int others = Integer.parseInt(arguments[2]);
    try (JavaSparkContext spark = new JavaSparkContext(new SparkConf().setAppName("pipelined"))) {
      Thread ordinary =
          new Thread(
              () -> spark.parallelize(Collections.nCopies(others, 2 * NAP_MS), others).foreach(Thread::sleep));
      ordinary.start();
      Thread.sleep(NAP_MS / 2);
      RDD<Tuple2<Integer, Integer>> pairs =
          spark
              .parallelize(Collections.nCopies(first, 1), first)
              .map(one -> new Tuple2<>(nap(), one))
              .rdd();
      System.out.println("done " + new Second(pairs, second).count());
      ordinary.join();
      System.out.println("most " + MOST.get());
    }
  }
}
