package decima.spark;

import com.codahale.metrics.Counter;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import org.apache.spark.scheduler.SparkListenerEvent;

/**
 * Whose a job is. An application, Kyuubi and Spark Connect set a local property. A Thrift server does
 * not: it posts an event that names the user of a statement, and the statement's jobs have its id as
 * their group.
 */
final class Users {
  /** of the application */
  static final String OWN = "decima.user";
  private static final String KYUUBI = "kyuubi.session.user";
  private static final String TAGS = "spark.job.tags";
  private static final String[] CONNECT = {"_User_", "_Session_"};
  private static final String STATEMENT = "SparkListenerThriftServerOperationStart";
  static final int MOST_STATEMENTS = 10000;
  private static final float LOAD = 0.75f;

  /** Thrift statements by id, those that were asked for last are kept */
  private final Map ofStatement =
      new LinkedHashMap(16, LOAD, true) {
        protected boolean removeEldestEntry(Map.Entry eldest) {
          return size() > MOST_STATEMENTS;
        }
      };

  /** Spark jobs that run and whose start was read: all events before it were, too */
  private final Set started = new HashSet();

  /** events that Spark has dropped as we were too slow; null: it does not count them */
  volatile Counter dropped = null;

  /** The user that the properties of a job name; null where none is named. */
  static String named(Properties properties) {
    String own = properties.getProperty(OWN);
    String found = own == null ? properties.getProperty(KYUUBI) : own;
    String tags = properties.getProperty(TAGS);
    if (found != null || tags == null) {
      return found;
    }
    int begin = tags.indexOf(CONNECT[0]);
    int end = tags.indexOf(CONNECT[1], begin);
    return begin < 0 || end < 0 ? null : tags.substring(begin + CONNECT[0].length(), end);
  }

  /** The user of a Thrift server's statement; null if it is none, or its event was not read yet. */
  synchronized String ofStatement(String group) {
    return (String) ofStatement.get(group);
  }

  /** An event that Spark's core does not know. */
  void note(SparkListenerEvent event) throws Exception {
    if (event.getClass().getSimpleName().equals(STATEMENT)) {
      Object group = Fields.call(event, "groupId");
      Object user = Fields.call(event, "userName");
      synchronized (this) {
        ofStatement.put(group, user);
      }
    }
  }

  synchronized void noteStart(int sparkJob) {
    started.add(Integer.valueOf(sparkJob));
  }

  synchronized void noteEnd(int sparkJob) {
    started.remove(Integer.valueOf(sparkJob));
  }

  /** Whether all events before the start of this job were read, and Spark has dropped none. */
  synchronized boolean isRead(int sparkJob) {
    return started.contains(Integer.valueOf(sparkJob)) && (dropped == null || dropped.getCount() == 0);
  }
}
