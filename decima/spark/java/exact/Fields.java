package decima.spark;

import java.lang.reflect.Field;
import org.apache.spark.SparkContext;
import org.apache.spark.scheduler.TaskSchedulerImpl;

/** Private fields of Spark's objects, by the end of their name: Scala prefixes some. */
final class Fields {
  /** Any of Spark's schedulers with the fields that we set: YARN's is one too. */
  static TaskSchedulerImpl schedulerOf(SparkContext context) {
    Object found = context.taskScheduler();
    if (!(found instanceof TaskSchedulerImpl)) {
      throw new IllegalStateException(
          "task scheduler " + found.getClass().getName() + " is no TaskSchedulerImpl");
    }
    return (TaskSchedulerImpl) found;
  }

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

  static void set(Object owner, String name, Object value) throws Exception {
    find(owner, name).set(owner, value);
  }
}
