package decima.spark;

import com.codahale.metrics.Counter;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import org.apache.spark.scheduler.SparkListenerEvent;

/**
 * The job that a Spark job is part of, and its user, by properties. An application, Kyuubi and Spark
 * Connect set a local property for the user. A Thrift server does not: it posts an event that names
 * the user of a statement, and the statement's jobs have its id as their group.
 */
final class Owners {
  /** properties that identify a job or its query, and the kind of those that name the job */
  private static final String[][] NAMES = {
    {"decima.job", "job "},
    {"spark.sql.execution.root.id", "sql "},
    {"spark.sql.execution.id", "sql "},
    {"spark.jobGroup.id", "group "},
    {"spark.job.description", null},
    {"callSite.short", null}
  };
  /** of the application */
  static final String OWN = "decima.user";
  private static final String KYUUBI = "kyuubi.session.user";
  private static final String TAGS = "spark.job.tags";
  private static final String[] CONNECT = {"_User_", "_Session_"};
  private static final String STATEMENT = "SparkListenerThriftServerOperationStart";
  static final int MOST_STATEMENTS = 10000;
  private static final float LOAD = 0.75f;

  /** Thrift statements by id, those that were asked for last are kept */
  private final Map<String, String> ofStatement =
      new LinkedHashMap<String, String>(16, LOAD, true) {
        protected boolean removeEldestEntry(Map.Entry<String, String> eldest) {
          return size() > MOST_STATEMENTS;
        }
      };

  /** Spark jobs that run and whose start was read: all events before it were, too */
  private final Set<Integer> started = new HashSet<>();

  /** events that Spark has dropped because they were read too slowly; null: not counted */
  volatile Counter dropped = null;

  /** The job that a Spark job is part of. */
  static String jobOf(Properties properties, int sparkJob) {
    for (String[] name : NAMES) {
      String value = properties == null ? null : properties.getProperty(name[0]);
      if (value != null && name[1] != null) {
        return name[1] + value;
      }
    }
    return "spark " + sparkJob;
  }

  /** Those of a Spark job's properties that identify its job and its query. */
  static Map<String, String> reported(Properties properties) {
    Map<String, String> values = new LinkedHashMap<>();
    for (String[] name : NAMES) {
      String value = properties == null ? null : properties.getProperty(name[0]);
      if (value != null) {
        values.put(name[0], value);
      }
    }
    return values;
  }

  /** The user that the properties of a job name; null where none is named. */
  static String named(Properties properties) {
    String named = properties.getProperty(OWN);
    String user = named == null ? properties.getProperty(KYUUBI) : named;
    String tags = properties.getProperty(TAGS);
    if (user != null || tags == null) {
      return user;
    }
    int begin = tags.indexOf(CONNECT[0]);
    int end = tags.indexOf(CONNECT[1], begin);
    return begin < 0 || end < 0 ? null : tags.substring(begin + CONNECT[0].length(), end);
  }

  /** The user of a Thrift server's statement; null if it is none, or its event was not read yet. */
  synchronized String ofStatement(String group) {
    return ofStatement.get(group);
  }

  /** An event that Spark's core does not know. */
  void note(SparkListenerEvent event) throws Exception {
    if (event.getClass().getSimpleName().equals(STATEMENT)) {
      String group = (String) Fields.call(event, "groupId");
      String user = (String) Fields.call(event, "userName");
      synchronized (this) {
        ofStatement.put(group, user);
      }
    }
  }

  synchronized void noteStart(int sparkJob) {
    started.add(sparkJob);
  }

  synchronized void noteEnd(int sparkJob) {
    started.remove(sparkJob);
  }

  /** Whether all events before the start of this job were read, and Spark has dropped none. */
  synchronized boolean isRead(int sparkJob) {
    return started.contains(sparkJob) && (dropped == null || dropped.getCount() == 0);
  }
}
