package decima.spark;

import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Properties;

/** Identity of a job, from the properties that Spark and the application have set. */
final class Jobs {
  private static final String[] NAMING = {
    "decima.job", "spark.sql.execution.root.id", "spark.sql.execution.id", "spark.jobGroup.id"
  };
  private static final String[] KINDS = {"job ", "sql ", "sql ", "group "};
  private static final String[] REPORTED = {
    "decima.job",
    "spark.sql.execution.root.id",
    "spark.sql.execution.id",
    "spark.jobGroup.id",
    "spark.job.description",
    "callSite.short"
  };

  /** The job that a Spark job is part of. */
  static String jobOf(Properties properties, int sparkJob) {
    if (properties != null) {
      for (int index = 0; index < NAMING.length; index++) {
        String value = properties.getProperty(NAMING[index]);
        if (value != null) {
          return KINDS[index] + value;
        }
      }
    }
    return "spark " + sparkJob;
  }

  /** Those of a Spark job's properties that identify its job and its query. */
  static Map<String, String> reported(Properties properties) {
    Map<String, String> found = new LinkedHashMap<>();
    for (String name : REPORTED) {
      String value = properties == null ? null : properties.getProperty(name);
      if (value != null) {
        found.put(name, value);
      }
    }
    return found;
  }
}
