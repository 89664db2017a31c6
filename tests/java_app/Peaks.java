import java.util.Map;
import java.util.TreeMap;

/** For queries: how many calls in the name of each user ran at once, in this JVM. */
public final class Peaks {
  private static final Map<String, int[]> RUNNING = new TreeMap<>();

  private static void change(String user, int by) {
    synchronized (RUNNING) {
      int[] counts = RUNNING.computeIfAbsent(user, name -> new int[2]);
      counts[0] += by;
      counts[1] = Math.max(counts[0], counts[1]);
    }
  }

  /** Sleep 100 ms as a user. */
  public static String nap(String user) throws InterruptedException {
    change(user, 1);
    Thread.sleep(100);
    change(user, -1);
    return user;
  }

  /** "ann 2 bob 2". */
  public static String peaks() {
    StringBuilder found = new StringBuilder();
    synchronized (RUNNING) {
      RUNNING.forEach((user, counts) -> found.append(user + " " + counts[1] + " "));
    }
    return found.toString().trim();
  }
}
