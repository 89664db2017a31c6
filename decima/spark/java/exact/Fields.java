package decima.spark;

import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.SparkContext;
import org.apache.spark.scheduler.TaskSchedulerImpl;

/** Members of Spark's objects that are private, or have another type in each version of Scala. */
final class Fields {
  /** Any of Spark's schedulers with the fields that are needed: YARN's is one too. */
  static TaskSchedulerImpl schedulerOf(SparkContext context) {
    Object taskScheduler = context.taskScheduler();
    if (!(taskScheduler instanceof TaskSchedulerImpl)) {
      throw new IllegalStateException(
          "task scheduler " + taskScheduler.getClass().getName() + " is no TaskSchedulerImpl");
    }
    return (TaskSchedulerImpl) taskScheduler;
  }

  /** By the end of its name: Scala prefixes some. */
  static Field find(Object owner, String name) {
    for (Class<?> type = owner.getClass(); type != null; type = type.getSuperclass()) {
      for (Field field : type.getDeclaredFields()) {
        if (field.getName().equals(name) || field.getName().endsWith("$$" + name)) {
          field.setAccessible(true);
          return field;
        }
      }
    }
    throw new IllegalStateException(owner.getClass().getName() + " has no field " + name);
  }

  static Object get(Object owner, String name) throws Exception {
    return find(owner, name).get(owner);
  }

  /** Set a field; a final one never: Java 26 warns of that, and later ones refuse it. */
  static void set(Object owner, String name, Object value) throws Exception {
    if (Modifier.isFinal(find(owner, name).getModifiers())) {
      throw new IllegalStateException(owner.getClass().getName() + ": " + name + " is final");
    }
    find(owner, name).set(owner, value);
  }

  /** What a method without arguments returns, of a class that is not always there. */
  static Object call(Object owner, String method) throws Exception {
    return owner.getClass().getMethod(method).invoke(owner);
  }

  /** A sequence that `method` returns: its type differs between Scala 2.12 and 2.13. */
  @SuppressWarnings("unchecked")
  static <T> List<T> list(Object owner, String method) throws Exception {
    List<T> elements = new ArrayList<>();
    scala.collection.Iterator<T> all =
        ((scala.collection.Iterable<T>) call(owner, method)).iterator();
    while (all.hasNext()) {
      elements.add(all.next());
    }
    return elements;
  }
}
