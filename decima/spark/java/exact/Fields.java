package decima.spark;

import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.SparkContext;
import org.apache.spark.scheduler.TaskSchedulerImpl;

/** What of Spark's objects is private, or has another type in each version of Scala. */
final class Fields {
  /** Any of Spark's schedulers with the fields that we need: YARN's is one too. */
  static TaskSchedulerImpl schedulerOf(SparkContext context) {
    Object found = context.taskScheduler();
    if (!(found instanceof TaskSchedulerImpl)) {
      throw new IllegalStateException(
          "task scheduler " + found.getClass().getName() + " is no TaskSchedulerImpl");
    }
    return (TaskSchedulerImpl) found;
  }

  /** By the end of its name: Scala prefixes some. */
  static Field find(Object owner, String name) {
    for (Class type = owner.getClass(); type != null; type = type.getSuperclass()) {
      Field[] all = type.getDeclaredFields();
      for (int index = 0; index < all.length; index++) {
        String own = all[index].getName();
        if (own.equals(name) || own.endsWith("$$" + name)) {
          all[index].setAccessible(true);
          return all[index];
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
    return owner.getClass().getMethod(method, new Class[0]).invoke(owner, new Object[0]);
  }

  /** A sequence that `method` returns: its type differs between Scala 2.12 and 2.13. */
  static List list(Object owner, String method) throws Exception {
    Object found = call(owner, method);
    ArrayList all = new ArrayList();
    scala.collection.Iterator each = ((scala.collection.Iterable) found).iterator();
    while (each.hasNext()) {
      all.add(each.next());
    }
    return all;
  }
}
