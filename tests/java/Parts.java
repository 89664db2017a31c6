package decima.spark;

import decima.policy.LiveJobs;
import java.io.IOException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;

/** For tests: parts of the plugin that need no Spark (`DriveSession` has the questions). */
public final class Parts {
  private static final long PAUSE_MS = 2_000;
  private static LogFiles files;

  private Parts() {}

  /** Why settings are refused; null: they are not. */
  public static String refusal(Map<String, String> settings) {
    try {
      new Settings(settings);
      return null;
    } catch (IllegalArgumentException refused) {
      return refused.getMessage();
    }
  }

  /** The key of Spark job 5 with these properties. */
  public static String job(Properties properties) {
    return Owners.jobOf(properties, 5);
  }

  /** Whether a call, "touch" or "urge", ends a pause between two reports. */
  public static boolean endsPause(String call) throws InterruptedException {
    Events events = new Events(null, 8);
    new Thread(call.equals("urge") ? events::urge : events::touch).start();
    long began = System.nanoTime();
    events.pause(PAUSE_MS);
    return System.nanoTime() - began < PAUSE_MS * 1_000_000L / 2;
  }

  /** The status after each report of a session. */
  public static List<Object> statuses(List<Report> reports, Map<String, Integer> limits) {
    Status status = new Status();
    LiveJobs live = new LiveJobs();
    List<Object> found = new ArrayList<>();
    for (Report report : reports) {
      live.update(report);
      status.note(report);
      status.notePlan(1);
      Map<String, Object> out = new LinkedHashMap<>();
      status.fill(out, live, limits);
      found.add(out);
    }
    return found;
  }

  /** Begin a log of bounded size; why it is refused, or null. */
  public static String begin(Map<?, ?> log, String header) throws IOException {
    if (files != null) {
      files.close();
    }
    try {
      files =
          new LogFiles(
              (String) log.get("path"),
              ((Number) log.get("max_bytes")).longValue(),
              ((Number) log.get("files")).intValue(),
              header);
      return null;
    } catch (IOException refused) {
      return refused.getMessage();
    }
  }

  /** Write to the log that was begun last; whether it still is open. */
  public static boolean write(List<String> lines) throws IOException {
    for (String line : lines) {
      files.write(line);
    }
    return files.isOpen();
  }
}
